#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Two builds take the same decisions: the digests of the simulator are equal, seed by seed. For
# changes that must not change behaviour.
# Usage: dev/digests.sh SPOTNIK_BEFORE SPOTNIK_AFTER [SEEDS]
# A tenth as many seeds each run with brief messages, with two workers and with three.
set -eu

before=$1
after=$2
seeds=${3:-10000}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# A seed that fails its checks tells so in its line, and differs by that.
digests()
{
    {
        "$1" sim --seeds "$seeds" --keep-going --json
        "$1" sim --seed 20000 --seeds $((seeds / 10)) --keep-going --json --brief 0
        "$1" sim --seed 30000 --seeds $((seeds / 10)) --keep-going --json --workers 2
        "$1" sim --seed 40000 --seeds $((seeds / 10)) --keep-going --json --workers 3
    } >"$2" || :
}

digests "$before" "$out/before"
digests "$after" "$out/after"
count=$(grep -c '^{' "$out/before") || count=0
if [ "$count" = 0 ] || ! cmp -s "$out/before" "$out/after"; then
    echo "digests: $count lines before; these differ first:" >&2
    diff "$out/before" "$out/after" | head -4 >&2
    exit 1
fi
echo "digests: $count runs are equal"
