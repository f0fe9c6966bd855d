#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Each pattern of tests/tiers fits a test: one that fits none names a test that is gone, or has another name by now.
# Usage: test_tiers.sh SOURCE_ROOT BUILD_ROOT
set -eu

unused=$(python3 "$1/dev/tier.py" "$2" unused)
[ -z "$unused" ] || { echo "test_tiers: no test fits these patterns of tests/tiers:"; echo "$unused"; exit 1; }
