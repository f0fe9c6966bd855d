#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Run every libFuzzer target for the given number of seconds, one after the other, starting from the kept corpus. New
# inputs go to build-fuzz/corpus; copy into tests/fuzz/corpus those worth keeping.
set -eu
cd "$(dirname "$0")/.."

seconds=${1:-60}
build=build-fuzz
if [ ! -f "$build/build.ninja" ]; then
    CC=clang meson setup "$build" -Dfuzz=true -Db_sanitize=address,undefined -Db_lundef=false \
        "-Dc_args=-fsanitize=fuzzer-no-link -fno-sanitize-recover=all" >"$build.log" 2>&1 || {
        cat "$build.log" >&2
        echo "fuzz: meson could not configure $build; see above" >&2
        exit 1
    }
    rm -f "$build.log"
fi
ninja -C "$build" --quiet fuzzers
targets=$(find "$build/tests/fuzz" -maxdepth 1 -type f -perm -u+x -name 'fuzz_*')
if [ -z "$targets" ]; then
    echo "fuzz: no target was built in $build/tests/fuzz" >&2
    exit 1
fi
failed=0
passed=0
for target in $targets; do
    name=$(basename "$target")
    kept=tests/fuzz/corpus/${name#fuzz_}
    found=$build/corpus/${name#fuzz_}
    mkdir -p "$found" "$build/crashes"
    [ -d "$kept" ] || kept=
    echo "fuzz: $name for $seconds s"
    # shellcheck disable=SC2086
    if "$target" -max_total_time="$seconds" -timeout=10 -artifact_prefix="$build/crashes/$name-" \
        -print_final_stats=1 "$found" $kept >"$build/$name.log" 2>&1; then
        grep -E 'number_of_executed_units|new_units_added' "$build/$name.log" || :
        passed=$((passed + 1))
    else
        tail -n 40 "$build/$name.log"
        echo "fuzz: $name failed; its input is in $build/crashes" >&2
        failed=$((failed + 1))
    fi
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
