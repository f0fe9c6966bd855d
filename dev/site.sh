#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Make the site of docs/ in BUILD/site, with MkDocs in a virtual environment of its own. A warning fails it.
# Usage: dev/site.sh BUILD
set -eu
cd "$(dirname "$0")/.."

build=$1
mkdocs=$build/mkdocs/bin/mkdocs
[ -x "$mkdocs" ] || {
    echo "site: installing mkdocs into $build/mkdocs with pip"
    python3 -m venv "$build/mkdocs"
    "$build/mkdocs/bin/python" -m pip install --quiet --disable-pip-version-check 'mkdocs>=1.6,<2'
}
"$mkdocs" build --strict --quiet --site-dir "$(realpath "$build")/site"
echo "site: open $build/site/index.html"
