#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Run every libFuzzer target for the given number of seconds, one after the other, starting from the kept corpus. New
# inputs go to build-fuzz/corpus; copy into tests/fuzz/corpus those worth keeping. At the end stands for each folder how
# many of the lines that the targets link they have run.
set -eu
cd "$(dirname "$0")/.."

seconds=${1:-60}
build=build-fuzz
if [ ! -f "$build/build.ninja" ]; then
    CC=clang meson setup "$build" -Dfuzz=true -Db_sanitize=address,undefined -Db_lundef=false \
        "-Dc_args=-fsanitize=fuzzer-no-link -fno-sanitize-recover=all -fprofile-instr-generate -fcoverage-mapping" \
        -Dc_link_args=-fprofile-instr-generate >"$build.log" 2>&1 || {
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
rm -f "$build"/*.profraw
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
    if LLVM_PROFILE_FILE=$build/$name.profraw "$target" -max_total_time="$seconds" -timeout=10 -artifact_prefix="$build/crashes/$name-" \
        -print_final_stats=1 "$found" $kept >"$build/$name.log" 2>&1; then
        grep -E 'number_of_executed_units|new_units_added' "$build/$name.log" || :
        passed=$((passed + 1))
    else
        tail -n 40 "$build/$name.log"
        echo "fuzz: $name failed; its input is in $build/crashes" >&2
        failed=$((failed + 1))
    fi
done
if command -v llvm-cov >/dev/null && llvm-profdata merge -o "$build/all.profdata" "$build"/*.profraw; then
    objects=$(echo "$targets" | sed 's/^/-object /')
    echo "fuzz: lines run, by folder"
    # shellcheck disable=SC2086
    llvm-cov export -summary-only -instr-profile="$build/all.profdata" $objects | python3 dev/fuzz_folders.py
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
