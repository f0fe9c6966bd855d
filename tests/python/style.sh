#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Types and style of the Python package and its tests; style of benchmarks, examples and dev, too. Usage: style.sh BUILD.
# Exit status 77 without the tools.
set -eu

build=$(cd "$1" && pwd)
cd "$(dirname "$0")/../.."
python=$build/venv/bin/python

if ! "$python" -c 'import mypy' 2>/dev/null || ! "$python" -m ruff --version >/dev/null 2>&1; then
    echo "skipped: $build/venv lacks mypy or ruff; make it with: dev/python.sh $build/venv"
    exit 77
fi
status=0
"$python" -m ruff check --no-cache python tests/python tests/faults tests/frameworks tests/nemesis tests/engines bench examples dev || status=1
"$python" -m mypy --cache-dir "$build/mypy" || status=1
exit "$status"
