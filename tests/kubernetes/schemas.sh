#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# schemas.sh BUILD SCRIPT [ARGUMENT]...: the script with the Python of BUILD/venv. Exit status 77 without it.
set -eu
if ! "$1/venv/bin/python" -c '' 2>/dev/null; then
    echo "SKIPPED: there is no $1/venv; make it with: dev/python.sh $1/venv"
    exit 77
fi
python=$1/venv/bin/python
shift
exec "$python" "$@"
