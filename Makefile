# SPDX-License-Identifier: Apache-2.0
# For typing only: every target forwards to a script or to Meson, where the rules are. See docs/HACKING.md.
#   make demo                          watch a model train while its workers are killed
#   make test                          everything that proves the promises; ends with "N passed, N failed"
#   make test-frameworks             Keras, TensorFlow, JAX and PyTorch 2.14, in environments of 6 GB that it makes
#   make matrix [ROUNDS=1]             every cell of tests/matrix once, in shards: an hour or two
#   make mutants                       break rules on purpose, and see who notices: half an hour (a part is in make test)
#   make soak [SOAK=DIR] [MINUTES=60] a cluster and a random nemesis; goes on where it was broken off, prints the record
#   make site                          the documents as a site, in build/site
#   make install PREFIX=DIR            library, header, command, man page, pkg-config file
# BUILD=DIR chooses the build folder, MESON_OPTIONS passes options to `meson setup`.

BUILD ?= build
PREFIX ?= /usr/local
DESTDIR ?=
FUZZ_SECONDS ?= 60
ROUNDS ?= 1
SOAK ?= $(BUILD)/soak
MINUTES ?= 60
export BUILD MESON_OPTIONS

.PHONY: all demo test test-frameworks matrix mutants soak bench check-asan check-tsan fuzz format reference site install clean

all:
	@dev/setup.sh build
	@dev/build.sh $(BUILD)

demo: all
	@examples/demo.sh $(BUILD)

test:
	@dev/setup.sh test
	@dev/test.sh $(BUILD)

test-frameworks: all
	@dev/frameworks.sh $(BUILD)/frameworks
	@tests/frameworks/run.sh $(BUILD)

matrix:
	@dev/setup.sh test
	@dev/matrix.sh $(BUILD) 64 $(ROUNDS)

mutants:
	@dev/setup.sh test
	@dev/mutants.sh $(BUILD)

soak:
	@dev/setup.sh test
	@dev/soak.sh $(BUILD) $(SOAK) $(MINUTES)

bench: all
	@dev/bench.sh $(BUILD)

check-asan:
	@dev/setup.sh test
	@dev/sanitize.sh address

check-tsan:
	@dev/setup.sh test
	@dev/sanitize.sh thread

fuzz:
	@dev/setup.sh fuzz
	@dev/fuzz.sh $(FUZZ_SECONDS)

format:
	@dev/setup.sh format
	@dev/python.sh $(BUILD)/venv
	@dev/format.sh

reference: all
	@dev/reference.sh $(BUILD)

site:
	@dev/site.sh $(BUILD)

install: all
	@dev/install.sh $(BUILD) "$(PREFIX)" "$(DESTDIR)"

clean:
	@rm -rf $(BUILD) build-asan build-tsan build-fuzz build-ci
