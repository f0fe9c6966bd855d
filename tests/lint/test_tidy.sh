#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The tree keeps the rules of dev/tidy.sh; and tidy.sh sees a breach of each, planted in a tree of its own.
# Usage: test_tidy.sh SOURCE_ROOT
set -eu

root=$1
"$root/dev/tidy.sh" "$root"

spdx='/* SPDX-License-Identifier: Apache-2.0 */'
planted=$(mktemp -d)
trap 'rm -rf "$planted"' EXIT

# plant FILE TEXT EXPECTED: a tree with this one file must be refused, with these words.
plant()
{
    rm -rf "${planted:?}"/*
    mkdir -p "$planted/$(dirname "$1")"
    printf '%b' "$2" >"$planted/$1"
    if "$root/dev/tidy.sh" "$planted" >"$planted/out"; then
        echo "test_tidy: $1 was not refused ($3)" >&2
        exit 1
    fi
    grep -qF "$1: $3" "$planted/out" || {
        echo "test_tidy: $1 was refused without saying '$3':" >&2
        cat "$planted/out" >&2
        exit 1
    }
}

plant src/ring/a.c "$spdx\n#include \"member/view.h\"\n" 'includes "member/view.h", but member stands after ring'
plant src/runtime/a.c "$spdx\n#include \"link/inside.h\"\n" 'includes "link/inside.h", which is private to link'
plant src/membership/a.c "$spdx\n#include \"allreduce/allreduce.h\"\n" 'includes "allreduce/allreduce.h", but allreduce stands after membership'
plant src/allreduce/a.c "$spdx\n#include \"membership/membership.h\"\n" 'includes "membership/membership.h", which is private to membership'
plant src/runtime/a.c "$spdx\n#include \"core/meet.h\"\n" 'includes "core/meet.h", which is private to core'
plant cli/a.c "$spdx\n#include \"runtime/inside.h\"\n" 'includes "runtime/inside.h", which is private to runtime'
plant tests/matrix/a.c "$spdx\n#include \"core/state.h\"\n" 'includes "core/state.h", which is private to core'
plant src/reduce/a.c "$spdx\n#include \"ring/ring.h\"\n" 'includes "ring/ring.h"'
plant src/api/a.c "$spdx\n#include \"cli/run.h\"\n" 'includes "cli/run.h", which is no layer'
plant src/core/a.c "$spdx\n#include <stdio.h>\n" 'includes <stdio.h>; core is pure'
plant src/extra/a.c "$spdx\n" 'extra is not in the list'
plant src/runtime/a.c "$spdx\nlong t = time(NULL);\n" 'line 2 reads the wall clock'
plant src/discovery/a.c "$spdx\nint c = CLOCK_REALTIME;\n" 'line 2 reads the wall clock'
plant src/api/a.c "$spdx\nint spotnik_carriage_new;\n" 'line 2 has a word that the house gave up'
plant src/api/a.c "$spdx\n#include \"plan/fleet.h\"\n" 'includes "plan/fleet.h", which is no layer'
plant common/a.c "$spdx\n#include \"plan/fleet.h\"\n" 'includes "plan/fleet.h"; common uses base, common'
plant packages/notices/notice/a.c "$spdx\n#include \"api/key.h\"\n" 'includes "api/key.h"; packages/notices uses base, common'
plant packages/notices/notice/a.c "$spdx\n#include \"../../../cli/run.h\"\n" 'includes "../../../cli/run.h"; packages/notices uses'
plant packages/bag/cli/a.c "$spdx\n#include \"notice/watch.h\"\n" 'includes "notice/watch.h"; packages/bag uses'
plant packages/planner/plan/a.c "$spdx\n#include \"core/core.h\"\n" 'includes "core/core.h"; packages/planner uses'
plant packages/planner/plan/a.c "$spdx\n#include \"cli/probe.h\"\n" 'includes "cli/probe.h"; packages/planner uses'
plant research/tables/a.c "$spdx\n#include \"core/core.h\"\n" 'includes "core/core.h"; research uses'
plant cli/a.c 'int x;\n' 'the first line is not the SPDX line'
plant cli/a.c "$spdx\n\tint x;\n" 'line 2 has a tab'
plant cli/a.c "$spdx\nint x; \n" 'line 2 ends in a blank'
plant cli/a.c "$spdx\n/* $(printf '%095d' 0) */\n" 'line 2 is longer than 100 columns'
plant cli/a.c "$spdx\n/* TO""DO */\n" 'line 2 is a note to self'
plant cli/a.c "$spdx\n$(awk 'BEGIN { for (i = 0; i < 600; i++) printf "\\n" }')" '601 lines'

# And a tree without breaches passes.
rm -rf "${planted:?}"/*
mkdir -p "$planted/src/core"
printf '%s\n#include <stdint.h>\n#include "member/view.h"\n' "$spdx" >"$planted/src/core/a.c"
"$root/dev/tidy.sh" "$planted"
