#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# All worlds of tests/matrix once, in shards. BUILD/matrix/ keeps what each shard has covered. A run that was broken off
# goes on with the shard it was in. The last one prints the coverage of all. Another commit begins anew.
# Usage: dev/matrix.sh BUILD [SHARDS] [ROUNDS]: with more rounds each world comes again with other types, operations and memory.
set -eu
cd "$(dirname "$0")/.."

build=$1
shards=${2:-64}
rounds=${3:-1}
dir=$build/matrix
commit=$(git rev-parse HEAD 2>/dev/null || echo none)-$shards-$rounds
dev/build.sh "$build"
if [ "$(cat "$dir/commit" 2>/dev/null || :)" != "$commit" ]; then
    rm -rf "$dir"
    mkdir -p "$dir"
    echo "$commit" >"$dir/commit"
fi

failed=0
shard=0
while [ "$shard" -lt "$shards" ]; do
    if [ ! -f "$dir/$shard" ]; then
        if "$build/tests/matrix/matrix" all shard="$shard" shards="$shards" rounds="$rounds" save="$dir/$shard.new" \
            >"$dir/$shard.log" 2>&1; then
            mv "$dir/$shard.new" "$dir/$shard"
            echo "matrix: shard $((shard + 1)) of $shards: $(head -n 1 "$dir/$shard.log")"
        else
            failed=$((failed + 1))
            echo "matrix: shard $((shard + 1)) of $shards failed:"
            grep -A1 FAILED "$dir/$shard.log" || tail -n 5 "$dir/$shard.log"
        fi
    fi
    shard=$((shard + 1))
done
if [ "$failed" != 0 ]; then
    echo "matrix: $failed of $shards shards failed; the next run tries those again"
    exit 1
fi
set --
for file in "$dir"/*; do
    case ${file##*/} in
    *[!0-9]*) ;;
    *) set -- "$@" "$file" ;;
    esac
done
"$build/tests/matrix/matrix" total "$@"
