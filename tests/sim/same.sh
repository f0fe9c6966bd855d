#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The same seed is the same history, to the letter; another seed is another: same.sh SPOTNIK.
set -eu
one=$(mktemp) two=$(mktemp)
trap 'rm -f "$one" "$two"' EXIT
for seed in 1 42 4711 987654321; do
    "$1" sim --seed $seed --trace --data >"$one"
    "$1" sim --seed $seed --trace --data >"$two"
    cmp "$one" "$two"
    [ "$(wc -l <"$one")" -gt 20 ] || { echo "seed $seed: no story was told"; exit 1; }
done
"$1" sim --seed 43 --trace --data >"$two"
"$1" sim --seed 42 --trace --data >"$one"
if cmp -s "$one" "$two"; then
    echo "seeds 42 and 43 tell the same story"
    exit 1
fi
