#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Check .github: its files fit GitHub's schemas, and zizmor finds no hole in the workflows. Offline after the first time, when
# pip gets both tools. Usage: dev/workflows.sh
set -eu
cd "$(dirname "$0")/.."

venv=${XDG_CACHE_HOME:-$HOME/.cache}/spotnik-workflows
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check check-jsonschema==0.39.0 zizmor==1.32.0
"$venv/bin/check-jsonschema" --builtin-schema vendor.github-workflows .github/workflows/*.yml
"$venv/bin/check-jsonschema" --builtin-schema vendor.dependabot .github/dependabot.yml
"$venv/bin/zizmor" --offline --no-progress .github
