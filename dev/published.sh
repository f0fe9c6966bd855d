#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Download this version's wheel for this machine from the index that pip uses, and compare it with the sums of dev/release.sh.
# An index shows an upload after a while, so it asks for up to ten minutes. Usage: dev/published.sh SHA256SUMS FOLDER
set -eu

sums=$(realpath "$1")
version=$(sed -n "s/^  version: '\(.*\)',/\1/p" "$(dirname "$0")/../meson.build")
tries=${TRIES:-20}
until python3 -m pip download --quiet --no-cache-dir --no-deps --only-binary :all: --dest "$2" "spotnik==$version"; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || {
        echo "published: the index has no wheel of spotnik $version for this machine" >&2
        exit 1
    }
    sleep 30
done
cd "$2" && sha256sum --ignore-missing -c "$sums"
