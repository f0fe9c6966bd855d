#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Each patch of dev/mutants applies to the tree, and says which rule it breaks and who notices: a patch that does not
# apply tests nothing. dev/mutants.sh builds and runs them.
# Usage: test_mutants.sh SOURCE_ROOT
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
exit $failed
