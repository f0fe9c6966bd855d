#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Make the environments in which spotnik.keras, spotnik.tensorflow and spotnik.jax are tested, DIR/tf and DIR/jax, and
# DIR/torch with a PyTorch newer than that of the other tests: some 6 GB. Silent when they are there. Usage: dev/frameworks.sh DIR. Exit status 1, with pip's reason, when it cannot be had.
set -eu

folder=$1

# make NAME PACKAGE...
make_venv()
{
    venv=$folder/$1
    shift
    [ ! -e "$venv/complete" ] || return 0
    echo "frameworks: installing into $venv with pip: $*"
    python3 -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
    touch "$venv/complete"
}

make_venv tf 'tensorflow-cpu==2.21.*' 'keras==3.15.*' tensorboard pytest
make_venv jax 'jax==0.10.*' optax flax equinox 'keras==3.15.*' torch==2.13.0 pytest
make_venv torch 'torch==2.14.*' torchft numpy pytest
