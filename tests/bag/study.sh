#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Claim: examples/md/study.py runs to its end with a made-up fluid on machines that are killed: a bag grows by what the surrogate asks for.
# study.sh BUILD. Exit status 77: PyTorch is not there.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "$1" && pwd)
if ! "$build/venv/bin/python" -c 'import torch' 2>/dev/null; then
    echo "skipped: $build/venv has no PyTorch; make it with: dev/python.sh $build/venv"
    exit 77
fi
unset SPOTNIK_PEERS SPOTNIK_KEY_FILE SPOTNIK_JOB SPOTNIK_BIND
export PYTHONPATH="$root/python" SPOTNIK_LIBRARY="$build/src/libspotnik.so" OMP_NUM_THREADS=1 SPOTNIK_STALE_MS=1000
export PATH="$build/cli:$build/venv/bin:$PATH"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python "$root/examples/md/study.py" --folder "$folder/study" --runs 13 --batch 4 --tests 4 --grids --no-pictures --kill-every 3
python - "$folder/study/study.json" <<'END'
import json, sys
told = json.load(open(sys.argv[1]))
active, grid = told["curves"]["largest error bars first"], told["curves"]["grids"]
assert [row[2] for row in active] == [9, 13] and grid == [], told
assert all(0 < row[1] < 0.2 and row[0] > 0 for row in active), told
END
