# The daily commands. `make` alone lists them. Nothing has to be prepared: each installs what it lacks, once.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

VENV := .venv
TEST_VENV := .venv-test
MODEL ?= smollm2-135m
DEMO_MODELS := smollm2-135m smollm2-135m-paged
PIP_INSTALL := -m pip --disable-pip-version-check install

# The first Python that is new enough; empty when there is none.
PYTHON ?= $(shell for name in python3 python3.13 python3.12 python3.11; do \
    $$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$name && break; done)

# The engine for CUDA where an NVIDIA driver is, else the one for the CPU. Both bring the same module: never both.
ifndef EXTRA
EXTRA := $(shell if test -e /proc/driver/nvidia/version || timeout 20 nvidia-smi -L >/dev/null 2>&1; \
    then echo cuda; else echo cpu; fi)
endif

# An environment whose Python is gone (a system upgrade, a removed folder) is made again.
works = $(shell $(1)/bin/python -c 'print("yes")' 2>/dev/null)
FORCE_VENV = $(if $(call works,$(VENV)),,FORCE)
FORCE_TEST_VENV = $(if $(call works,$(TEST_VENV)),,FORCE)

# $(call new_venv,FOLDER): an empty environment, or one line that says what the machine lacks.
define new_venv
	@test -n "$(PYTHON)" || { echo "Prism needs Python 3.11 or newer (Debian, Ubuntu: sudo apt-get install python3)"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
	    || { echo "Python lacks its venv module (Debian, Ubuntu: sudo apt-get install python3-venv)"; exit 1; }
	@rm -rf $(1)
	@echo "Making the environment $(1) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(1)
endef

.PHONY: help setup model serve test test-clients lint bench clean test-system FORCE

help: ## List these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/installed-$(EXTRA) ## Make the environment .venv and install Prism (EXTRA=cpu or cuda to choose the engine)

$(VENV)/installed-$(EXTRA): pyproject.toml $(FORCE_VENV)
	$(call new_venv,$(VENV))
	@echo "Installing Prism with the engine for $(EXTRA) (minutes the first time$(if $(filter cuda,$(EXTRA)),: about 2.5 GB))"
	@$(VENV)/bin/python $(PIP_INSTALL) --editable '.[$(EXTRA),demo]'
	@touch $@

model: setup
	@test -z "$(filter $(MODEL),$(DEMO_MODELS))" || $(VENV)/bin/python -m prism list --json | grep -qF '"id": "$(MODEL)"' \
	    || $(VENV)/bin/python -m prism pull $(MODEL)

serve: model ## Serve the demo model, which is pulled if it is missing (MODEL=name for another, ARGS='--port 8080' for flags)
	@exec $(VENV)/bin/python -m prism serve --model $(MODEL) $(ARGS)

test: lint ## Check format, style and types, and run the tests (PYTEST_ARGS='tests/ipc -x' to choose)
	@$(TEST_VENV)/bin/python -m pytest $(PYTEST_ARGS)

test-clients: $(TEST_VENV)/installed ## Install real clients and run them against the demo model (minutes, downloads)
	@PRISM_TEST_CLIENTS=1 $(TEST_VENV)/bin/python -m pytest -m clients tests/clients $(PYTEST_ARGS)

lint: $(TEST_VENV)/installed ## Check format, style and types
	@$(TEST_VENV)/bin/ruff format --check .
	@$(TEST_VENV)/bin/ruff check .
	@$(TEST_VENV)/bin/mypy .

$(TEST_VENV)/installed: pyproject.toml $(FORCE_TEST_VENV) | test-system
	$(call new_venv,$(TEST_VENV))
	@echo "Installing what the tests need (minutes the first time)"
	@$(TEST_VENV)/bin/python $(PIP_INSTALL) --quiet --editable '.[dev,cpu,demo]'
	@touch $@

# A machine on which nobody can be asked (as root, a fresh image) gets what it lacks: Python, and systemd-analyze for the unit's tests.
test-system:
	@missing=; \
	if ! test -n "$(PYTHON)" || ! $(PYTHON) -c 'import ensurepip, venv' 2>/dev/null; then missing="python3 python3-venv"; fi; \
	if ! command -v systemd-analyze >/dev/null; then missing="$$missing systemd"; fi; \
	if test -n "$$missing" && test "$$(id -u)" = 0 && command -v apt-get >/dev/null; then \
	    export DEBIAN_FRONTEND=noninteractive; \
	    apt-get update -qq && apt-get install -y -qq --no-install-recommends $$missing </dev/null; \
	fi

bench: model ## Measure speed and cost, each against its baseline in the same run
	@$(MAKE) model MODEL=smollm2-135m-paged
	@$(VENV)/bin/python -m benchmarks $(ARGS)

clean: ## Remove the environments and all that was built (models stay)
	@rm -rf $(VENV) $(TEST_VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
