# Two images from one file: the REST node, and the simulated gateway with both MPC nodes, as three
# processes; compose.yml gives each a container of its own.
#   docker build --target node .      docker build --target gateway .
# Each holds what its processes import, by a lock of its own (`make lock`).

# Python 3.11.15 on Debian 13, the index of all architectures. What the tag stands for now:
#   docker buildx imagetools inspect python:3.11-slim
# Another one, such as a mirror's or a hardened one: --build-arg BASE=...
ARG BASE=python:3.11.15-slim@sha256:90744cff8f32887f075c47d747a173ff333e9e98801667af93c357fa9f5e28ff
FROM ${BASE} AS base
RUN python3 -c 'import sys, venv, ensurepip; assert sys.version_info >= (3, 11)' 2>/dev/null \
    || { echo "the base image has no Python 3.11 or newer with its venv module: give another with --build-arg BASE=..." >&2; exit 1; }

# Nothing of this stage is in an image but the wheel.
FROM base AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python3 -m venv /build
ENV PATH=/build/bin:$PATH
WORKDIR /src
COPY requirements-build.lock ./
RUN pip install --no-deps --require-hashes -r requirements-build.lock
COPY pyproject.toml README.md LICENSE ./
COPY mpcsim ./mpcsim
COPY node ./node
# The wheel's build back end is in the lock; nothing is fetched here.
RUN pip wheel --no-deps --no-build-isolation --wheel-dir /wheels .

FROM build AS node-venv
COPY requirements-node.lock ./
RUN python3 -m venv --without-pip /venv \
    && pip --python /venv/bin/python install --no-deps --require-hashes -r requirements-node.lock \
    && pip --python /venv/bin/python install --no-deps /wheels/*.whl

FROM build AS gateway-venv
COPY requirements-gateway.lock ./
RUN python3 -m venv --without-pip /venv \
    && pip --python /venv/bin/python install --no-deps --require-hashes -r requirements-gateway.lock \
    && pip --python /venv/bin/python install --no-deps /wheels/*.whl
# The Ethereum contracts, and the chain that the gateway runs beside itself, with the build's Node.js.
RUN PYTHONPATH=$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') \
    /venv/bin/python -m mpcsim.service.smart_account.install

FROM base AS runtime
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 LOG_FORMAT=json LOG_FOLDER=off
RUN useradd --create-home --home-dir /service --uid 10001 service
# By number, so that Kubernetes sees that it is not root.
USER 10001:10001
WORKDIR /service

FROM runtime AS gateway
COPY --from=gateway-venv /venv /venv
# Volumes take over these folders and their owner.
RUN mkdir -p data/gateway data/operator data/institution
ENV GATEWAY_PORT=9090
EXPOSE 9090
VOLUME /service/data
HEALTHCHECK --interval=30s --timeout=5s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as r; r.urlopen('http://127.0.0.1:' + os.environ['GATEWAY_PORT'] + '/.well-known/jwks.json', timeout=4)"]
CMD ["mpcsim", "serve", "--gateway-only", "--host", "0.0.0.0", "--data", "data"]

FROM runtime AS node
COPY --from=node-venv /venv /venv
ARG BUILD_TYPE=release
# Reachable within the container's network; publish the port to the caller's backend only.
ENV APP_HOST=0.0.0.0 APP_PORT=9091 BUILD_TYPE=$BUILD_TYPE
EXPOSE 9091
HEALTHCHECK --interval=30s --timeout=5s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as r; r.urlopen('http://127.0.0.1:' + os.environ['APP_PORT'] + '/', timeout=4)"]
CMD ["python", "-m", "node"]
