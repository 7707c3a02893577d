# Tachograph: two commands do everything on a fresh Debian machine, `make run` and `make test`.

PREFIX ?= /usr/local
# In the clone: cargo trusts modification times, so clones that share this directory would run each
# other's code. They share compiled third-party crates, by scripts/crate-cache.py.
export CARGO_TARGET_DIR ?= $(CURDIR)/target
# Which server `make build`, `make run` and `make test` are about: mariadb is the one that is
# installed here, 10.11; mariadb-11.8 and mysql-9.7 are in folders of their own. capture is the
# installed one without a plugin, with `tacho capture` beside it.
SERVER ?= mariadb
# The installed one has another name, too.
override SERVER := $(SERVER:mariadb-10.11=mariadb)
# mariadb or mysql: each has scripts of its own.
FAMILY := $(firstword $(subst -, ,$(SERVER)))
export TACHO_SERVER = $(SERVER)
# Where setup.sh puts Rust, if it had to; the shell that called make may not know yet.
export PATH := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH)

# A step of make test.
STEP := scripts/steps.sh run

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help build build-mysql run demo test test-all check-deep test-this test-server test-mysql test-mtr test-pauses test-asan setup-mysql ui ui-check ui-test deb repo test-deb test-systemd rpm repo-rpm test-rpm container test-container lint deny site bench bench-hub fuzz crash loom proof miri install uninstall clean cargo setup-run setup-test setup-bench setup-deep

help: ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

build: setup-run ## Build plugin, command and hub into build/ (SERVER=mysql-9.7: the component)
	scripts/build-programs.sh release
	$(if $(filter capture,$(FAMILY)),,scripts/build-$(FAMILY).sh $(SERVER))
	@scripts/crate-cache.py save

build-mysql: setup-mysql ## Build what MySQL loads into build/mysql-9.7 (component), build/mysql-8.0 (plugin)
	scripts/build-mysql.sh mysql-9.7
	scripts/build-mysql.sh mysql-8.0

setup-mysql: setup-test ## Fetch MySQL 9.7 and 8.0 into folders of their own (four minutes; build-mysql does it, too)
	@scripts/setup-mysql.sh mysql-9.7
	@scripts/setup-mysql.sh mysql-8.0

run: build ## Record a load, check the log, measure the cost (SERVER=capture: from packets)
	cargo run --release -p tacho-tests --bin tacho-run

demo: build ## Show the web UI with a day of traffic of several servers (ARGS='--listen 127.0.0.1:7780')
	cargo run --release -p tacho-tests --bin tacho-demo -- $(ARGS)

ifeq ($(SERVER),mariadb)
# The tests of the crates need unoptimised programs anyway, and optimised ones take ten minutes.
test: PASS = smoke
test: export TACHO_BIN = $(CURDIR)/build/bin-dev
test: test-this ## Run the tests that protect the promises (SERVER=mysql-9.7: all of that one)

test-all: PASS = all
# Of the build and the packages, not of the product.
test-all: MORE_STEPS = clones repo
test-all: export TACHO_ALL_SERVERS = 1
test-all: setup-test build test-this ## Run all tests, with all servers

# The longest first: two at a time, and none that is long is left for the end. All is built before
# the tests, because cargo locks its directory while it builds.
STEPS := crates mariadb mysql-9.7 instructions mysql-8.0 mariadb-11.8 loom figures proof mtr \
	install harness examples detector plugin-symbols
test-this: setup-test
	@scripts/left-out.sh begin
	@scripts/steps.sh begin
	@$(MAKE) --no-print-directory -j2 step-compile step-plugin
	@$(MAKE) --no-print-directory -j2 PASS=$(PASS) $(addprefix step-,$(STEPS) $(MORE_STEPS))
	@scripts/crate-cache.py save
	@scripts/left-out.sh show
	@scripts/steps.sh show

step-compile:
	@$(STEP) compile scripts/build-programs.sh tests
step-plugin:
	@$(STEP) plugin scripts/build-mariadb.sh

step-crates:
	@# They mostly wait for processes.
	@RUST_TEST_THREADS=6 $(STEP) crates cargo test --workspace --exclude tacho-tests \
		--exclude tacho-tidy --no-fail-fast
step-harness:
	@$(STEP) harness cargo test -p tacho-tests --lib --bins
step-examples:
	@$(STEP) examples cargo test -p tacho-tests --doc
step-mariadb:
	@$(STEP) mariadb scripts/test-server.sh mariadb $(if $(filter all,$(PASS)),all,usual)
step-mariadb-11.8 step-mysql-9.7 step-mysql-8.0: step-%:
	@TACHO_PASS=$(PASS) $(STEP) $* scripts/test-release.sh $*
step-mtr:
	@$(STEP) mtr scripts/mtr.sh
step-instructions:
	@$(STEP) instructions scripts/instructions.py
step-figures:
	@$(STEP) figures adapters/mariadb/tests/figures/run.py kinds quick
step-install:
	@$(STEP) install scripts/test-install.sh
step-plugin-symbols:
	@$(STEP) plugin-symbols scripts/plugin-symbols.sh
step-proof:
	@$(STEP) proof scripts/proof.sh --self-test
step-loom:
	@$(STEP) loom scripts/loom.sh
step-detector:
	@$(STEP) detector tests/preload/self_test.sh
step-clones:
	@$(STEP) clones scripts/test-clones.sh
step-repo:
	@$(STEP) repo scripts/test-repo.sh
else ifeq ($(FAMILY),mysql)
test test-all: setup-test build
	TACHO_ALL_SERVERS=1 scripts/test-release.sh $(SERVER)
else ifeq ($(FAMILY),capture)
# The decoder, and its records beside those of the plugin.
test test-all: setup-test build
	cargo test -p tacho-capture
	scripts/build-mariadb.sh mariadb
	scripts/test-server.sh mariadb all -- capture
else
test test-all: setup-test build test-server
	scripts/mtr.sh $(SERVER)
endif

check-deep: setup-test build ## Miri, fuzzers, AddressSanitizer, pauses, kills, packages: one line of result each (hours)
	scripts/check-deep.sh

test-server: setup-test build
	scripts/plugin-symbols.sh $(SERVER)
	scripts/test-server.sh $(SERVER) all

test-mysql: setup-test ## Run all tests with MySQL 9.7 and 8.0
	TACHO_ALL_SERVERS=1 scripts/test-release.sh mysql-9.7 mysql-8.0

test-mtr: setup-test build ## Run the tests in MariaDB's own test framework (part of make test)
	scripts/mtr.sh $(SERVER)

ui: ## Build the web UI into ui/dist (Node is fetched the first time)
	scripts/ui.sh build

ui-check: ## Check types, format, lints and unit tests of the web UI
	scripts/ui.sh check

ui-test: ## Test the web UI, with a hub and real records behind it, and the report of tacho bench in Chromium
	scripts/ui.sh test

deb: build ## Pack the command and the plugin, or component, for Debian into build/deb/
	scripts/deb.sh $(SERVER)

repo: ## Make an apt repository of build/deb in build/repo (KEY: a key of GnuPG that signs it)
	scripts/repo.sh $(KEY)

rpm: setup-deep build ## Pack the same for RHEL 9 and systems like it into build/rpm/
	scripts/rpm.sh $(SERVER)

repo-rpm: setup-deep ## Make a repository for dnf of build/rpm in build/repo-rpm (KEY: a key of GnuPG that signs it)
	scripts/repo-rpm.sh $(KEY)

# The container of the hub is made of its package for Debian.
container: setup-deep deb ## Build the images of the server with the recorder in it, and of the hub (podman or docker)
	scripts/container.sh $(SERVER)
	scripts/container.sh hub

test-rpm: setup-deep build ## Install the packages by dnf into stand-ins for RHEL 9 and record there (needs root)
	scripts/test-rpm.sh $(SERVER)

test-container: setup-deep deb ## Kill a container of the server under load, and compare its log (rootless podman)
	scripts/test-container.sh $(SERVER)

test-deb: setup-test deb ## Install the packages into a clean Debian and record there (needs root)
	scripts/test-deb.sh $(SERVER)

test-systemd: setup-test deb ## Run tacho-capture.service under systemd in a clean Debian (needs root)
	scripts/test-systemd.sh

lint: setup-test ## Check format, clippy, clang-format, shellcheck, links, the web UI and the rules in crates/tidy
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	find adapters bench crates include tests \( -name '*.c' -o -name '*.cc' -o -name '*.h' \) -print0 \
		| xargs -0 -r clang-format --dry-run -Werror
	shellcheck -x .ci/run scripts/*.sh bench/*/*.sh tests/preload/*.sh
	scripts/check-links.py
	scripts/ui.sh check
	cargo test -p tacho-tidy
	@scripts/crate-cache.py save

site: ## Build the documents into a site, build/site (mdBook is compiled the first time)
	scripts/site.sh

deny: setup-run ## Check licences, bans and sources of third-party crates (the first time compiles cargo-deny)
	scripts/deny.sh

bench: build setup-bench ## Run the benchmarks: what recording costs, beside what it may cost
	bench/run.py

# The long form: bench/hub/README.md.
bench-hub: build setup-bench ## Measure the hub beside other systems, short: 2 M records, 10 minutes
	peers=$$(bench/hub/setup.sh) && build/bench-hub/venv/bin/python bench/hub/measure.py \
		--peers "$$peers" --records 2000000 --file-mib 32 --store-records 5000000 \
		--seconds 20 --repeats 5

crash: build ## Kill 100 times (TACHO_CRASH_ROUNDS), install and uninstall 200 (TACHO_UNINSTALL_ROUNDS)
	TACHO_CRASH_ROUNDS="$${TACHO_CRASH_ROUNDS:-100}" \
		cargo test --release -p tacho-tests --test any crash -- --nocapture
	TACHO_UNINSTALL_ROUNDS="$${TACHO_UNINSTALL_ROUNDS:-200}" \
		cargo test --release -p tacho-tests --test mariadb a_plugin_is_installed_and_removed_under_load -- --nocapture

test-asan: setup-test ## Run the tests with AddressSanitizer in the server (SERVER=mysql-9.7: on that one)
	scripts/test-asan.sh $(SERVER)

test-pauses: setup-test ## Run the tests with a writer that pauses here and there (SERVER=mysql-9.7: on that one)
	scripts/test-pauses.sh $(SERVER)

loom: setup-run ## Explore the interleavings of the arena's producers and consumer
	scripts/loom.sh

proof: setup-run ## Prove by linking that the hot zone can neither panic nor allocate
	scripts/proof.sh --self-test

miri: setup-run ## Check the arena for undefined behaviour (needs a nightly toolchain with miri)
	MIRIFLAGS=-Zmiri-disable-isolation cargo +nightly miri test -p tacho-ring --test arena

fuzz: setup-run ## Run the fuzzers for a while (needs a nightly toolchain and cargo-fuzz)
	scripts/fuzz.sh

# DESTDIR, PREFIX and PLUGIN_DIR: scripts/install.sh.
install: ## Install plugin, command, manual pages, completions and units (DESTDIR=, PREFIX=; after make build)
	@DESTDIR="$(DESTDIR)" PREFIX="$(PREFIX)" PLUGIN_DIR="$(PLUGIN_DIR)" scripts/install.sh install $(SERVER)

uninstall: ## Remove what make install has installed for SERVER; the log stays
	@DESTDIR="$(DESTDIR)" PREFIX="$(PREFIX)" PLUGIN_DIR="$(PLUGIN_DIR)" scripts/install.sh uninstall $(SERVER)

clean: ## Remove build/ and what was compiled (third-party crates stay in the cache)
	rm -rf build target

# Runs cargo as the other targets do: make cargo ARGS='test -p tacho-filter'
cargo: setup-run
	cargo $(ARGS)

setup-run:
	@scripts/setup.sh run
	@scripts/crate-cache.py seed

setup-test:
	@scripts/setup.sh test
	@scripts/crate-cache.py seed

setup-deep:
	@scripts/setup.sh deep
	@scripts/crate-cache.py seed

setup-bench:
	@scripts/setup.sh bench
	@scripts/crate-cache.py seed
