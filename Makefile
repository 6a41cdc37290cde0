# Every target makes what it needs: a fresh clone wants only Python >= 3.11 and make.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
MEMBERS := $(wildcard libs/*/pyproject.toml services/*/pyproject.toml)

# uv never downloads interpreters, and compiled bytecode halves every start.
export UV_PYTHON_DOWNLOADS := never
export UV_COMPILE_BYTECODE := 1
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup run chat up-local down-local demo test check fmt proto lock bench bench-peers faults up down test-containers clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

setup: $(READY) ## make .venv from requirements.lock and install the packages of this repository

$(READY): requirements.lock pyproject.toml $(MEMBERS) scripts/bootstrap.sh
	@PYTHON=$(PYTHON) bash scripts/bootstrap.sh $(VENV)
	@touch $@

run: setup ## start Minara: HTTP on loopback, and a chat when this is a terminal
	@$(BIN)/minara serve --repl

chat: setup ## open a chat in this terminal
	@$(BIN)/minara chat

up-local: setup ## start five processes on this machine, and wait until they are ready
	@$(BIN)/minara local up

down-local: setup ## stop them in good order
	@$(BIN)/minara local down

demo: setup ## drive the chat in a pseudo-terminal, without any key: price, purchase, portfolio, trace
	@$(BIN)/python scripts/demo.py

test: setup ## run every suite; installs the Debian packages the suites need and says so
	@bash scripts/install-test-packages.sh
	@$(BIN)/python -m pytest -n 2 --dist loadscope $(ARGS)

check: setup ## every static check: lint, types, import contracts, protos, sizes, glossary
	@bash scripts/check.sh

fmt: setup ## format Python and protos
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix-only --quiet . && $(BIN)/buf format -w

proto: setup ## regenerate libs/minara_protos from proto/
	@$(BIN)/python scripts/generate_protos.py

lock: setup ## resolve again; write requirements.lock, and what of it ships to requirements-image.lock
	@$(BIN)/uv lock && $(BIN)/uv export --frozen --no-emit-workspace --no-header --all-groups -q -o requirements.lock
	@$(BIN)/uv export --frozen --no-emit-workspace --no-header --no-default-groups -q -o requirements-image.lock
	@$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	  --no-emit-index-url bench/requirements-peers.in -o bench/requirements-peers.lock

bench: setup ## measure turns, streams, the start and the memory; ARGS=--quick (docs/bench.md)
	@bash scripts/install-test-packages.sh
	@PYTHONPATH=tests $(BIN)/python -m bench $(ARGS)

bench-peers: setup ## install other frameworks into .venv-peers and measure our turn beside theirs
	@bash scripts/install-peers.sh $(BIN)/uv .venv-peers
	@PYTHONPATH=tests $(BIN)/python -m bench --only peers --json build/bench-peers.json $(ARGS)

faults: setup ## kill, stop and disturb the money path N times from SEED on (docs/faults.md)
	@bash scripts/install-test-packages.sh
	@PYTHONPATH=tests $(BIN)/python -m support.faults --runs $(or $(N),100) --seed $(or $(SEED),1) $(ARGS)

up: ## build the image and start all services in containers with your Docker (docs/containers.md)
	@bash scripts/containers/compose.sh up $(ARGS)

down: ## stop the containers; ARGS=-v removes what they keep, too
	@bash scripts/containers/compose.sh down $(ARGS)

test-containers: setup ## test image, compose and store in containers; installs an engine where none runs
	@bash scripts/containers/test.sh

clean: ## remove what make made here; your data folder is not touched
	@rm -rf $(VENV) .venv-peers build .pytest_cache .ruff_cache .hypothesis uv.lock
