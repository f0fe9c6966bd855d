#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# mocks.sh BUILD MODULE SCRIPT [ARGUMENT]...: the script with a Python that has the module: SPOTNIK_MOCKS, or that of BUILD/venv. Exit status 77
# where neither has it.
set -eu
python=${SPOTNIK_MOCKS:-$1/venv/bin/python} module=$2
if ! "$python" -c "import $module" 2>/dev/null; then
    echo "SKIPPED: $python has no $module; make one with: python3 -m venv DIR && DIR/bin/pip install kmock 'moto[server]', and set SPOTNIK_MOCKS=DIR/bin/python"
    exit 77
fi
shift 2
exec "$python" "$@"
