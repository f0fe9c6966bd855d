#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Rules broken on purpose, and whether anybody notices. Each dev/mutants/NAME.patch breaks one rule. Its head names the
# rule and those who are to notice:
#
#     Rule: a share is told from others by the rank of its member
#     Noticed-by: matrix sim
#
# The tree is copied to BUILD/mutants, where each patch is applied, built and undone. Watchers are `matrix`, `sim`, `brief`, `tree`, `founding` and unit
# tests by their names in `meson test --list`. A watcher notices when it fails within MUTANTS_LIMIT_S seconds (60, for two
# quiet processors). A unit test that hangs fails in `meson test`, so it notices, too. Of the others one that has not ended
# by then has not noticed. MUTANTS_WATCHERS names others than the patches do.
# Usage: dev/mutants.sh BUILD [--all | --quick] [NAME ...]; --all asks matrix and sim of every mutant, whoever is to notice.
# --quick takes only mutants that the unit tests of core, member and membership alone are to notice: half a minute, in `make test`.
set -eu
cd "$(dirname "$0")/.."

build=$1
shift
every=
if [ "${1:-}" = --all ]; then
    every="matrix sim"
    shift
fi
quick=
if [ "${1:-}" = --quick ]; then
    quick=yes
    shift
fi
limit=${MUTANTS_LIMIT_S:-60}
root=$(pwd)
mkdir -p "$build/mutants"
dir=$(cd "$build/mutants" && pwd)
tree=$dir/tree
bin=$dir/build

rm -rf "$tree.new"
mkdir -p "$tree.new"
git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -p -t "$tree.new" --
mkdir -p "$tree"
# Only what differs is copied, with a time of now: the rest need not be compiled again.
(cd "$tree" && find . -type f) | while read -r file; do
    [ -e "$tree.new/$file" ] || rm "$tree/$file"
done
(cd "$tree.new" && find . -type f) | while read -r file; do
    cmp -s "$tree.new/$file" "$tree/$file" || { mkdir -p "$tree/${file%/*}" && cp --preserve=mode "$tree.new/$file" "$tree/$file"; }
done
rm -rf "$tree.new"
[ -f "$bin/build.ninja" ] || meson setup "$bin" "$tree" >"$dir/said" 2>&1 || { cat "$dir/said" >&2; exit 1; }

command_of()
{
    case $1 in
    matrix) echo "$bin/tests/matrix/matrix sample failures=1" ;;
    sim) echo "$bin/cli/spotnik sim --seed 1 --seeds 3000" ;;
    brief) echo "$bin/cli/spotnik sim --brief 0 --seed 1 --seeds 3000" ;;
    tree) echo "$bin/cli/spotnik sim --tree 3 --brief 0 --seed 1 --seeds 3000" ;;
    founding) echo "$bin/sim/founding/founding --seeds 1000" ;;
    discovery_contest | discovery_founding | discovery_keeping | discovery_list | discovery_process | discovery_witness) echo "$bin/tests/unit/discovery/test_${1#discovery_}" ;;
    *_*) echo "$bin/tests/unit/${1%%_*}/test_$1" ;;
    *)
        echo "mutants: nobody is called $1" >&2
        exit 2
        ;;
    esac
}

target_of()
{
    words=$(command_of "$1") || exit 2
    echo "$words" | sed "s#^$bin/##; s# .*##"
}

# Prints "seconds what it said", fails if it did not notice.
ask()
{
    begin=$(date +%s)
    status=0
    # shellcheck disable=SC2046
    timeout -s KILL "$limit" $(command_of "$1") >"$dir/said" 2>&1 || status=$?
    took=$(($(date +%s) - begin))
    case $1-$status in
    *-0) false ;;
    matrix-137 | sim-137 | brief-137 | tree-137 | founding-137) false ;;
    esac
}

names_of()
{
    cd dev/mutants
    if [ "$quick" ]; then
        grep -lE '^Noticed-by:( (core|member|membership)_[a-z_]+)+$' ./*.patch
    else
        ls ./*.patch
    fi | sed 's#^\./##; s#\.patch$##'
}

# shellcheck disable=SC2046
[ $# -gt 0 ] || set -- $(names_of)
count=0
noticed=0
for name; do
    patch=$root/dev/mutants/$name.patch
    watchers=$(sed -n 's/^Noticed-by: *//p' "$patch")
    [ -z "${MUTANTS_WATCHERS:-}" ] || watchers=$MUTANTS_WATCHERS
    for one in $watchers; do
        target_of "$one" >/dev/null # a watcher that is not there fails, and would count as one that notices
    done
    also=$(for one in $every; do case " $watchers " in *" $one "*) ;; *) printf '%s ' "$one" ;; esac; done)
    patch -s -d "$tree" -p1 <"$patch"
    # shellcheck disable=SC2046
    if ! ninja -C "$bin" --quiet $(for one in $watchers $also; do target_of "$one"; done) >"$dir/said" 2>&1; then
        cat "$dir/said" >&2
        echo "mutants: $name does not compile" >&2
        exit 1
    fi
    all=yes
    line=
    for one in $watchers; do
        if ask "$one"; then
            line="$line $one ${took}s;"
        else
            line="$line $one NOT in ${limit}s;"
            all=no
        fi
    done
    for one in $also; do
        if ask "$one"; then
            line="$line ($one too, ${took}s);"
        else
            line="$line ($one not);"
        fi
    done
    patch -s -R -d "$tree" -p1 <"$patch"
    count=$((count + 1))
    [ "$all" = no ] || noticed=$((noticed + 1))
    echo "$name: ${line# } $(sed -n 's/^Rule: *//p' "$patch")"
done
echo "mutants: $noticed of $count noticed by all who are to notice, $(ls dev/mutants/*.patch | wc -l) in all"
[ "$noticed" = "$count" ]
