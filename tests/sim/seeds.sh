#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Histories that once broke a promise keep it now: seeds.sh SPOTNIK SEEDS_FILE. A line is "SEED  what it found"; '#' is a comment.
set -u
failed=0
count=0
while read -r seed found; do
    case $seed in "" | "#"*) continue ;; esac
    count=$((count + 1))
    if ! "$1" sim --seed "$seed" >/dev/null; then
        echo "seed $seed broke a promise again ($found); replay: spotnik sim --seed $seed --trace"
        failed=1
    fi
done <"$2"
echo "$count histories"
[ $failed = 0 ] && [ $count -gt 0 ]
