#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Claim: each package, and research/, builds alone beside an installed copy of the library, and passes its unit tests.
# `spotnik NAME` of that copy finds the command that a package installs, and the manual is there.
# Usage: alone.sh SOURCE BUILD PREFIX
set -eu

source=$1
build=$2
prefix=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

DESTDIR=$folder meson install -C "$build" --no-rebuild --quiet
spotnik=$folder$prefix/bin/spotnik

# alone FOLDER: make it from its own build file alone, and install it beside the library.
alone()
{
    made=$folder/$(basename "$1")
    if ! meson setup --prefix "$prefix" "$made" "$source/$1" >"$folder/said" 2>&1 || ! ninja -C "$made" >"$folder/said" 2>&1; then
        cat "$folder/said"
        echo "alone: $1 does not build alone"
        exit 1
    fi
    meson test -C "$made" --no-rebuild --timeout-multiplier 4 >"$folder/said" || { cat "$folder/said"; exit 1; }
    DESTDIR=$folder meson install -C "$made" --no-rebuild --quiet
}

# helped COMMAND NAME: its help begins with how `spotnik NAME` is used.
helped()
{
    "$@" --help >"$folder/said" || { echo "alone: $* --help ended with $?"; exit 1; }
    for name; do :; done
    head -n 1 "$folder/said" | grep -qi "^usage: spotnik ${name#*spotnik-} " || { echo "alone: $* --help said:"; cat "$folder/said"; exit 1; }
}

alone packages/bag
alone packages/notices
alone packages/planner
for name in bag notice plan prices profile fleet; do
    PATH=/usr/bin:/bin helped "$spotnik" "$name"
done
for page in bag notice plan fleet; do
    [ -s "$folder$prefix/share/man/man1/spotnik-$page.1" ] || { echo "alone: there is no manual of $page"; exit 1; }
done
alone research
for name in backtest model; do
    helped "$folder/research/spotnik-$name"
done
