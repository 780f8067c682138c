# What one does with this repository. PYTHON is the interpreter of the environment that has `.[dev]`.
PYTHON ?= python
BIN := $(shell $(PYTHON) -c 'import sysconfig; print(sysconfig.get_path("scripts"))')

.PHONY: run test night lint bench docs lock

TASK ?= what is 15% of 80?

run:  ## one task: make run TASK="…"
	$(BIN)/fractal run "$(TASK)"

test:  ## the tests of each change
	$(PYTHON) -m pytest

night:  ## all tests, with more examples, new seeds and clocks
	FRACTAL_NIGHT=1 $(PYTHON) -m pytest

lint:  ## what CI checks before it tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $$($(PYTHON) -c 'import sys; print(sys.executable)')
	$(BIN)/lint-imports

bench:  ## what Fractal itself costs; python -m bench --help lists the other benchmarks
	$(PYTHON) -m bench overhead

docs:  ## write the generated pages, the example run and the README's copy of it
	$(PYTHON) scripts/make_docs.py

lock:  ## write requirements.lock anew, with the newest releases that pyproject.toml allows (pip install uv)
	uv pip compile --quiet --upgrade --python-version 3.11 --extra dev --generate-hashes --no-annotate \
	  --custom-compile-command "make lock" pyproject.toml --output-file requirements.lock
