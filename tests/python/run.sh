#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Run pytest with the package of this source tree and the library and command of a build folder.
# Usage: run.sh BUILD FOLDER [pytest arguments]. Exit status 77 when the environment for it is missing.
set -eu

build=$(cd "$1" && pwd)
root=$(cd "$(dirname "$0")/../.." && pwd)
shift

if ! "$build/venv/bin/python" -c 'import pytest' 2>/dev/null; then
    echo "skipped: $build/venv has no pytest; make it with: dev/python.sh $build/venv"
    exit 77
fi
unset SPOTNIK_PEERS SPOTNIK_KEY_FILE SPOTNIK_JOB SPOTNIK_BIND
export PYTHONPATH="$root/python" PYTHONDONTWRITEBYTECODE=1 PYTHONFAULTHANDLER=1
export SPOTNIK_LIBRARY="$build/src/libspotnik.so" SPOTNIK_ROOT="$root"
export PATH="$build/cli:$build/venv/bin:$PATH"
# Members outnumber cores here: one thread each.
export OMP_NUM_THREADS=1 MKL_NUM_THREADS=1

status=0
"$build/venv/bin/python" -m pytest --rootdir "$root" "$@" || status=$?
# 5: nothing to run, for want of something that every test of the folder needs.
[ "$status" != 5 ] || exit 77
exit "$status"
