#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh BUILD PAGE: tests of Ray with a Python that has it: SPOTNIK_RAY, or that of BUILD/venv. Exit status 77 where neither has.
set -eu
build=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
python=${SPOTNIK_RAY:-$build/venv/bin/python}
if ! "$python" -c 'import ray, numpy' 2>/dev/null; then
    echo "SKIPPED: $python has no Ray; make one with: python3 -m venv DIR && DIR/bin/pip install ray numpy, and set SPOTNIK_RAY=DIR/bin/python"
    exit 77
fi
unset SPOTNIK_PEERS SPOTNIK_KEY_FILE SPOTNIK_JOB SPOTNIK_BIND RAY_ADDRESS
export PYTHONPATH="$here/../../python" PYTHONDONTWRITEBYTECODE=1 SPOTNIK_LIBRARY="$build/src/libspotnik.so" OMP_NUM_THREADS=1
export RAY_AUTH_MODE=disabled RAY_USAGE_STATS_ENABLED=0 PATH="$build/cli:$PATH"
exec "$python" "$here/actors.py" "$2"
