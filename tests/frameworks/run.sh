#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Run the tests of the faces for Keras, TensorFlow and JAX in the environments DIR/tf and DIR/jax that dev/frameworks.sh
# makes, those of the process group and of torchft with the newer PyTorch of DIR/torch, and those of libraries for data
# and training in DIR/libraries (SPOTNIK_FRAMEWORKS names another folder). Usage: run.sh BUILD [pytest arguments]. Exit
# status 77 without them. With SPOTNIK_RECORD=FILE results are kept, and a run goes on where it was broken off: see
# record.py.
set -eu

build=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
shift
venvs=${SPOTNIK_FRAMEWORKS:-$build/frameworks}

unset SPOTNIK_PEERS SPOTNIK_KEY_FILE SPOTNIK_JOB SPOTNIK_BIND
export PYTHONPATH="$root/python:$here" PYTHONDONTWRITEBYTECODE=1 SPOTNIK_LIBRARY="$build/src/libspotnik.so"
export SPOTNIK_ROOT="$root"
# Members outnumber cores here: one thread each.
export OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 TF_NUM_INTRAOP_THREADS=1 TF_NUM_INTEROP_THREADS=1
export XLA_FLAGS="--xla_cpu_multi_thread_eigen=false"
# Programs of JAX are compiled once, and not by each member of each run: that takes three fifths of a member's time.
export JAX_COMPILATION_CACHE_DIR="$build/frameworks-jax-cache" JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0
export JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES=-1
folder=$root/tests/python/torch
status=77
for name in tf jax torch libraries; do
    python=$venvs/$name/bin/python
    if ! "$python" -c 'import pytest' 2>/dev/null; then
        echo "skipped: $venvs/$name is not there; make it with: dev/frameworks.sh $venvs"
        continue
    fi
    [ "$status" != 77 ] || status=0
    case $name in
    libraries) tests="$folder/test_libraries.py $folder/test_sources.py $folder/test_shapes.py" ;;
    torch)
        tests="$folder/test_group.py $folder/test_reconfigure.py $folder/test_torchft.py"
        ;;
    *) tests=$here ;;
    esac
    [ -z "${SPOTNIK_RECORD:-}" ] || tests="-p record $tests"
    # shellcheck disable=SC2086
    PATH="$build/cli:$venvs/$name/bin:$PATH" "$python" -m pytest --rootdir "$root" $tests "$@" || {
        # 5: what the arguments chose is none of the tests of this environment.
        [ $? = 5 ] || status=1
    }
done
exit "$status"
