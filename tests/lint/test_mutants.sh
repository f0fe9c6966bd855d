#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Each patch of dev/mutants applies to the tree, and says which rule it breaks and who notices: a patch that does not
# apply tests nothing. Then the rules that the unit tests of core and membership are to notice are broken, each in turn.
# `make nightly RUNS=mutants` breaks all.
# Usage: test_mutants.sh SOURCE_ROOT BUILD_ROOT
set -eu

cd "$1"
failed=0
for patch in dev/mutants/*.patch; do
    if ! patch -p1 --dry-run -s -f <"$patch" >/dev/null 2>&1; then
        echo "test_mutants: $patch does not apply"
        failed=1
    fi
    for head in 'Rule: ' 'Noticed-by: '; do
        grep -q "^$head" "$patch" || { echo "test_mutants: $patch has no line '$head'"; failed=1; }
    done
done
[ "$failed" = 0 ] || exit 1
if ! git rev-parse --verify -q HEAD >/dev/null; then
    echo "skipped: without git there is no list of the files to copy"
    exit 77
fi
MUTANTS_LIMIT_S=600 exec dev/mutants.sh "$2" --quick # the limit is for a watcher that hangs
