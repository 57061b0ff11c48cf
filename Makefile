# Two commands do everything on a machine with Python 3.11+, make and apt: make demo and make test.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3.14 python3; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
# Two states of one environment: what `make demo` needs, and all that the tests need.
BASE := $(VENV)/.base
READY := $(VENV)/.ready
DOCS := $(VENV)/docs/.ready
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps

PAGE := src/whereish/service/page/vendor/stamp
# The compiled core. The C compiler comes from PyPI (ziglang) and keeps its own files in here.
CORE := src/whereish/_core/stamp.json
export WHEREISH_ZIG_CACHE ?= $(abspath $(VENV))/zig-cache
# A process that may not write bytecode compiles NumPy, pydantic and the rest again at every start,
# and the tests start hundreds. Images of Python often set this.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo serve test quick thorough fresh check bench format clean system pins sbom \
	core core-sanitize core-fuzz wheels extension npm version versions release floors installed docs site

demo: $(BASE) $(CORE)
	$(BIN)/whereish demo -o demo
	@echo "make serve installs what the service needs, and starts it with its page."

serve: $(READY) $(CORE) $(PAGE)
	$(BIN)/whereish serve

# Three processes for two cores: some tests wait for a browser or a server.
test: check core $(PAGE) system
	WHEREISH_EFFORT=test $(BIN)/python -m pytest -n 3 --dist loadgroup -q -m "not thorough"

# All tests with all generated examples and all hostile pages: at night, and before a release.
thorough: check core $(PAGE) system
	$(BIN)/python -m pytest -n 2 --dist loadgroup -q

# What a contributor runs while working: no browser, database, service, cluster or kills.
quick: $(READY) $(CORE)
	$(BIN)/ruff check .
	WHEREISH_EFFORT=quick $(BIN)/python -m pytest -n 2 --dist loadgroup -q -p no:schemathesis -m "not heavy and not slow"

# Both commands of the README as on a new machine: a clone of HEAD, empty home, temporary and cache folders.
fresh:
	.ci/as-new .ci/fresh

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Its result is kept in benchmarks/results/VERSION.json, and drawn with those of other versions.
bench: $(READY) $(CORE)
	$(BIN)/python benchmarks/solvers.py
	$(BIN)/python tools/benchmark_history.py record benchmarks/results/solvers.json

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Write all pins again (needs uv, which gets an environment next to the project's).
pins: $(READY)
	$(PYTHON) -m venv $(VENV)/pins && $(VENV)/pins/bin/python -m pip install --quiet uv
	$(VENV)/pins/bin/python tools/pins.py

# The library of this machine, and the WebAssembly module.
core: $(BASE)
	$(BIN)/python core/build.py

# The tests of the solver and the checks, against a build with sanitizers.
core-sanitize: $(READY)
	$(BIN)/python tools/sanitize_core.py

# Wrong input of every kind for the functions of the core, for SECONDS.
SECONDS ?= 60
core-fuzz: $(READY)
	$(BIN)/python tools/fuzz_core.py --seconds $(SECONDS)

# Wheels for Linux, macOS and Windows, built on this machine.
wheels: $(READY) $(PAGE)
	$(BIN)/python tools/wheels.py

# The JavaScript client as a package: dist/whereish-VERSION.tgz.
npm: $(READY)
	$(BIN)/python core/build.py wasm
	mkdir -p dist
	PATH="$(abspath $(BIN)):$$PATH" npm pack ./clients/js --pack-destination dist

# The extension for Chromium and Firefox: dist/extension-chromium and dist/extension-firefox.
extension: $(READY) $(PAGE)
	$(BIN)/python core/build.py wasm
	$(BIN)/python clients/extension/build.py

# The version that the package states, and the places that follow from it.
version:
	@$(PYTHON) tools/release/versions.py --show

versions: $(READY)
	$(BIN)/python tools/release/versions.py
	$(BIN)/python tools/page_constants.py

# All that is released, in dist/whereish-VERSION, checked in an empty environment. Uploads nothing.
release: $(READY) $(PAGE)
	$(BIN)/python tools/make_release.py
	$(BIN)/python tools/verify_release.py dist/whereish-$$($(BIN)/python tools/release/versions.py --show)

# The fast tests with the oldest versions of all packages that pyproject.toml allows.
floors: $(READY) $(CORE)
	$(PYTHON) -m venv $(VENV)/floors && $(VENV)/floors/bin/python -m pip install --quiet uv
	$(VENV)/floors/bin/python tools/floors.py

# The part of the tests that runs on every system, against the wheel in dist, in a new environment.
installed:
	$(PYTHON) tools/test_installed.py

# The documentation site in dist/docs: runs the tutorials and the gallery; warnings and broken links
# are errors. mkdocs has an environment of its own, and imports nothing of Whereish.
docs: $(READY) $(CORE) $(DOCS)
	$(BIN)/python tools/site/build.py dist/docs --mkdocs $(VENV)/docs/bin/mkdocs

# A folder for any static host, dist/site: the documentation, the page without a server in demo/, and
# the extension's archives.
site: $(READY) $(CORE) $(DOCS) extension
	$(BIN)/python tools/site/build.py dist/site --mkdocs $(VENV)/docs/bin/mkdocs --demo

# Write a software bill of materials: every package of an installed service.
sbom: $(READY)
	$(BIN)/python tools/sbom.py

clean:
	rm -rf $(VENV) demo whereish-demo .mypy_cache .ruff_cache .pytest_cache .hypothesis dist src/whereish/service/page/vendor src/whereish/_core clients/js/dist

$(CORE): core/build.py $(wildcard core/*.c core/*.h) | $(BASE)
	$(BIN)/python core/build.py native
	touch $@

# The page's libraries come from npm. Building the package does the same.
$(PAGE): hatch_build.py src/whereish/service/page/vendor.sha256 src/whereish/service/page/package-lock.json clients/js/whereish.js \
		$(wildcard clients/js/*.js clients/js/whereish/*.js clients/js/build/*.js clients/js/map/*.js clients/js/profile/*.js clients/js/solve/*.js) \
		tools/world_map.py $(wildcard core/*.c core/*.h) core/build.py | $(READY)
	$(BIN)/python hatch_build.py
	touch $@

$(DOCS): requirements/docs.txt | $(READY)
	$(PYTHON) -m venv --clear $(VENV)/docs
	$(VENV)/docs/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r $<
	touch $@

# The browsers and PostgreSQL come from Debian. Where they cannot be installed, their tests are skipped.
system:
	@command -v chromium >/dev/null 2>&1 || $(call debian,chromium fonts-dejavu-core,the tests of the page)
	@command -v firefox-esr >/dev/null 2>&1 || $(call debian,firefox-esr,the tests of the extension in Firefox)
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || $(call debian,postgresql,the tests with PostgreSQL)

define debian
{ [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && echo "installing $(1)" && \
	{ DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $(1) >/dev/null 2>&1 || \
	{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $(1) >/dev/null; }; } || \
	echo "$(1) is missing and cannot be installed here: $(2) are skipped"; }
endef

# The environment is made again when what it is made from changes. Each stamp is written last, so
# a broken environment has none. The pins name every package: pip has nothing to resolve (--no-deps).
# Python compiles a module to bytecode at its first import, so pip need not (--no-compile).
$(BASE): pyproject.toml $(filter-out requirements/docs.txt,$(wildcard requirements/*.txt)) Makefile
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed"; exit 1; }
	rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); apt-get update && apt-get install -y python3-venv && $(PYTHON) -m venv $(VENV); }
	$(PIP) --require-hashes -r requirements/core.txt
	# Without hatch_build.py: it fetches the page's files from npm, and only $(PAGE) needs them. The
	# core is made by $(CORE).
	HATCH_BUILD_NO_HOOKS=true $(PIP) --no-build-isolation -e .
	touch $@

$(READY): $(BASE)
	@echo "Installing the packages of the tests: some minutes, once."
	$(PIP) --require-hashes -r requirements/dev.txt
	# The page is built with npm, and the JavaScript client is tested in node: PyPI has both.
	command -v node >/dev/null 2>&1 || $(PIP) --require-hashes -r requirements/node.txt
	$(BIN)/python -m pip check --quiet
	touch $@
