#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Install under PREFIX, optionally staged below DESTDIR. Usage: dev/install.sh BUILD PREFIX [DESTDIR]
set -eu
cd "$(dirname "$0")/.."

case $2 in
/*) prefix=$2 ;;
*) prefix=$(pwd)/$2 ;;
esac
meson configure "$1" -Dprefix="$prefix" -Dlibdir=lib
dev/build.sh "$1"
if [ -n "${3:-}" ]; then
    DESTDIR=$3 meson install -C "$1" --no-rebuild
else
    meson install -C "$1" --no-rebuild
fi
