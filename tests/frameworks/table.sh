#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Print the table of docs/results/frameworks.md: every face with every program, undisturbed and disturbed. Cells that
# RECORD has are not run again, so it goes on where it was broken off. Usage: table.sh BUILD [RECORD [pytest arguments]].
# Half an hour on a quiet machine. Exit status 1 when a test failed, 77 without the environments.
set -eu

build=$1
record=${2:-$build/frameworks-cells.jsonl}
here=$(cd "$(dirname "$0")" && pwd)
shift
[ $# = 0 ] || shift
status=0
SPOTNIK_CELLS=$(realpath -m "$record") "$here/run.sh" "$build" -q -k test_members "$@" >&2 || status=$?
[ "$status" = 77 ] || python3 "$here/cells.py" "$record"
exit "$status"
