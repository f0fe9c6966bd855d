#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Make the environments in which spotnik.keras, spotnik.tensorflow and spotnik.jax are tested, DIR/tf and DIR/jax, and
# DIR/torch with a PyTorch newer than that of the other tests, and DIR/libraries with what docs/guide/recipes.md is
# about: some 8 GB. Silent when they are there. Usage: dev/frameworks.sh DIR. Exit status 1, with pip's reason, when it
# cannot be had.
set -eu

folder=$1

# make_venv NAME PACKAGE...; $bare: packages without what these ask for, an older PyTorch or transformers say
make_venv()
{
    venv=$folder/$1
    shift
    [ ! -e "$venv/complete" ] || return 0
    echo "frameworks: installing into $venv with pip: $*"
    python3 -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
    # shellcheck disable=SC2086  # names of packages have no blanks
    [ -z "$bare" ] || "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps $bare
    touch "$venv/complete"
}

bare=
make_venv tf 'tensorflow-cpu==2.21.*' 'keras==3.15.*' tensorboard pytest
make_venv jax 'jax==0.10.*' optax flax equinox 'keras==3.15.*' torch==2.13.0 pytest
make_venv torch 'torch==2.14.*' torchft numpy pytest
bare='mosaicml mosaicml-cli mosaicml-streaming ultralytics ultralytics-thop'
# From coolname on: what the bare ones need.
make_venv libraries torch==2.13.0 'torchvision==0.28.*' numpy pytest accelerate transformers datasets webdataset \
    litdata trl peft sentence-transformers timm open_clip_torch torchao bitsandbytes schedulefree fastai \
    'fastprogress<1.1' coolname py-cpuinfo tabulate torchmetrics torch_optimizer importlib-metadata rich argcomplete \
    arrow backoff 'gql[websockets]' prompt_toolkit questionary ruamel.yaml termcolor validators \
    opencv-python-headless polars brotli python-snappy zstd xxhash boto3 catalogue paramiko matplotlib azure-identity \
    azure-storage-blob
