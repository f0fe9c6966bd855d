#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Make the site in BUILD/site: of a tagged commit under its number and as "latest", else as "dev", beside the versions that the
# branch gh-pages of SITE_REPOSITORY has (default: BUILD/site.git). MkDocs and mike are in an environment of their own, which pip
# fills once. A warning fails it. Usage: dev/site.sh BUILD
set -eu
cd "$(dirname "$0")/.."

mkdir -p "$1"
build=$(realpath "$1")
venv=$build/mkdocs
[ -x "$venv/bin/mike" ] || {
    echo "site: installing mkdocs into $venv with pip"
    python3 -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check 'mkdocs>=1.6,<2' 'mike>=2.2,<3' 'mkdocstrings[python]>=1,<2'
}
version=$(git tag --points-at HEAD 'v*' 2>/dev/null | sed -n '1s/^v\([0-9]*\.[0-9]*\).*/\1/p')

GIT_DIR=${SITE_REPOSITORY:-$build/site.git}
export GIT_DIR GIT_AUTHOR_NAME=site GIT_AUTHOR_EMAIL=site@localhost GIT_COMMITTER_NAME=site GIT_COMMITTER_EMAIL=site@localhost
[ -d "$GIT_DIR" ] || git init --quiet --bare "$GIT_DIR"
PATH=$venv/bin:$PATH
mike --quiet deploy --message "site: ${version:-dev}" --update-aliases "${version:-dev}" ${version:+latest}
mike list | grep -q latest && default=latest || default=dev
mike --quiet set-default --message "site: $default first" "$default"
rm -rf "$build/site"
mkdir "$build/site"
git archive gh-pages | tar x -C "$build/site"
echo "site: $default is the first of $(mike list | wc -l); python3 -m http.server -d $build/site"
