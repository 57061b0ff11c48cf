# Two commands do everything on a machine with Python 3.11+, make and apt: make demo, make test.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

PAGE := src/whereish/service/page/vendor/stamp

.PHONY: demo serve test quick fresh check bench format clean system pins sbom

demo: $(READY)
	$(BIN)/whereish demo -o demo

serve: $(READY) $(PAGE)
	$(BIN)/whereish serve

test: check $(PAGE) system
	$(BIN)/python -m pytest -n 2 --dist loadgroup -q

# What a contributor runs while working: no browser, database, service, cluster or kills.
quick: $(READY)
	$(BIN)/ruff check .
	$(BIN)/python -m pytest -n 2 -q -m "not heavy and not slow"

# Both commands of the README as on a new machine: a clone of HEAD, empty home, temporary and cache folders.
fresh:
	.ci/as-new .ci/fresh

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python benchmarks/solvers.py

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Pins of versions and hashes, made anew (needs uv, which is installed beside the environment).
pins: $(READY)
	$(PYTHON) -m venv $(VENV)/pins && $(VENV)/pins/bin/python -m pip install --quiet uv
	$(VENV)/pins/bin/python tools/pins.py

# A software bill of materials of what an installed service consists of.
sbom: $(READY)
	$(BIN)/python tools/sbom.py

clean:
	rm -rf $(VENV) demo whereish-demo .mypy_cache .ruff_cache .pytest_cache .hypothesis dist src/whereish/service/page/vendor

# Other people's code for the page comes from npm; it is built with the package, too.
$(PAGE): hatch_build.py src/whereish/service/page/vendor.sha256 src/whereish/service/page/package-lock.json clients/js/whereish.js $(wildcard clients/js/whereish/*.js) | $(READY)
	$(BIN)/python hatch_build.py
	touch $@

# A browser and PostgreSQL are Debian's. Where they may not be installed, their tests are left out.
system:
	@command -v chromium >/dev/null 2>&1 || $(call debian,chromium fonts-dejavu-core,the tests of the page)
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || $(call debian,postgresql,the tests with PostgreSQL)

define debian
{ [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && echo "installing $(1)" && \
	{ DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $(1) >/dev/null 2>&1 || \
	{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $(1) >/dev/null; }; } || \
	echo "$(1) is not there and cannot be installed here: $(2) are left out"; }
endef

# The environment is remade when what it is made from changes; a broken one is never "ready".
$(READY): pyproject.toml constraints.txt Makefile
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed"; exit 1; }
	rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); apt-get update && apt-get install -y python3-venv && $(PYTHON) -m venv $(VENV); }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	# The page is built with npm, and the browser's client is tested in node: PyPI has both.
	command -v node >/dev/null 2>&1 || $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-node.txt
	touch $@
