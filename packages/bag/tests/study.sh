#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Claim: examples/md/study.py runs to its end with a made-up fluid on machines that are killed: a bag grows by what the surrogate asks for, its
# results are those of calm machines, and it learns more than from a grid of nearly as many runs. Where a machine fails, the study
# ends and says why. Members of the training come and go with the machines; on calm ones the surrogate is trained in one process, since each
# start of PyTorch takes seconds.
# study.sh BUILD. Exit status 77: PyTorch is not there.
set -eu
root=$(cd "$(dirname "$0")/../../.." && pwd)
build=$(cd "$1" && pwd)
if ! "$build/venv/bin/python" -c 'import importlib.util as u, sys; sys.exit(u.find_spec("torch") is None)'; then
    echo "skipped: $build/venv has no PyTorch; make it with: dev/python.sh $build/venv"
    exit 77
fi
unset SPOTNIK_PEERS SPOTNIK_KEY_FILE SPOTNIK_JOB SPOTNIK_BIND
export PYTHONPATH="$root/python" SPOTNIK_LIBRARY="$build/src/libspotnik.so" OMP_NUM_THREADS=1 SPOTNIK_STALE_MS=1000
export PATH="$build/cli:$build/venv/bin:$PATH"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
printf '0,add,a\n60000,remove,a\n' >"$folder/trace.csv"
if python "$root/examples/md/study.py" --folder "$folder/failed" --runs 20 --tests 1 --steps 2000 --no-pictures --machines 2 \
    --trace "$folder/trace.csv" --speed 1 2>"$folder/failed.txt"; then
    echo "study.sh: a trace of one machine was enough for two" >&2
    exit 1
fi
grep -q "a machine of .* failed: .*trace.csv has 1 machines" "$folder/failed.txt" || { cat "$folder/failed.txt" >&2; exit 1; }
python "$root/examples/md/study.py" --folder "$folder/study" --runs 20 --tests 4 --grids 2 --no-pictures --kill-every 3 --slower 40 \
    --alone
grep -q "m[01] comes" "$folder/study/asked/train.log" || { cat "$folder/study/asked/train.log" >&2; exit 1; }
python - "$folder/study/study.json" <<'END'
import json, sys
told = json.load(open(sys.argv[1]))
curves = told["curves"]
for asked in (curves["asked"], curves["asked, calm machines"]):
    assert asked[-1][2] == 20 and asked[0][2] < 20, told
    assert asked[-1][1] < curves["grids"][0][1] / 2, told  # two values of each parameter say little
assert all(row[0] > 0 for curve in curves.values() for row in curve), told
assert told["same"] >= 12 and told["differ"] == 0, told
assert told["attempts"]["asked"]["done"] == 20 and told["lives"] > 2, told
END
