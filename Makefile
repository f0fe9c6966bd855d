# SPDX-License-Identifier: Apache-2.0
# For typing only: every target forwards to a script or to Meson, where the rules are. See docs/HACKING.md.
#   make demo                          watch a model train while its workers are killed
#   make test                          unit tests, lint, 2,000 simulated histories, kills: eight minutes on two cores
#   make check                         all that a change can break on this machine: 25 minutes
#   make nightly [RUNS="seeds fuzz"]   sanitizers, fuzzing, mutants, the whole matrix, frameworks, a soak: hours
#   make site                          the documents as a site, in build/site
#   make install PREFIX=DIR            library, header, command, man page, pkg-config file

BUILD ?= build
PREFIX ?= /usr/local
DESTDIR ?=
export BUILD MESON_OPTIONS

.PHONY: all demo test check check-rest nightly bench format site install clean

all:
	@dev/setup.sh build
	@dev/build.sh $(BUILD)

demo: all
	@DEMO_REPORT=$${DEMO_REPORT:-$(BUILD)/demo-report} examples/demo.sh $(BUILD)/examples $(BUILD)/cli/spotnik

test:
	@dev/setup.sh test
	@dev/test.sh $(BUILD) quick

check:
	@dev/setup.sh check
	@dev/test.sh $(BUILD) check

check-rest: # what `make check` adds to `make test`
	@dev/setup.sh check
	@dev/test.sh $(BUILD) rest

nightly:
	@dev/setup.sh nightly
	@dev/nightly.sh $(BUILD) $(RUNS)

bench: all
	@dev/bench.sh $(BUILD)

format:
	@dev/setup.sh format
	@dev/python.sh $(BUILD)/venv quick
	@dev/format.sh

site:
	@dev/site.sh $(BUILD)

install: all
	@dev/install.sh $(BUILD) "$(PREFIX)" "$(DESTDIR)"

clean:
	@rm -rf $(BUILD) build-asan build-tsan build-fuzz build-ci
