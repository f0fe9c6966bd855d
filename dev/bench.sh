#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Run the benchmarks that Meson knows, in turn, showing what they print.
set -eu
cd "$(dirname "$0")/.."
exec meson test -C "$1" --benchmark --no-rebuild --verbose --num-processes 1
