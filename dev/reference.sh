#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Make pages to browse from the docstrings of the Python package, in BUILD/reference, with pdoc in a virtual environment
# of its own. Usage: dev/reference.sh BUILD
set -eu
cd "$(dirname "$0")/.."

build=$1
dev/python.sh "$build/venv" || { echo "reference: there is no Python environment to import the package in" >&2; exit 1; }
"$build/venv/bin/python" -c 'import pdoc' 2>/dev/null || {
    echo "reference: installing pdoc into $build/venv with pip"
    "$build/venv/bin/python" -m pip install --quiet --disable-pip-version-check pdoc
}
set -- spotnik
"$build/venv/bin/python" -c 'import torch' 2>/dev/null && set -- "$@" spotnik.torch
PYTHONPATH=python SPOTNIK_LIBRARY="$build/src/libspotnik.so" \
    "$build/venv/bin/python" -m pdoc --no-show-source --output-directory "$build/reference" "$@"
echo "reference: open $build/reference/index.html"
