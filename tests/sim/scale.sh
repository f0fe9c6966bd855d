#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# P6 at scale: with K losses at once no survivor of 200 sends more than 6 + 3 (K + 1) control messages: scale.sh SPOTNIK.
set -eu
"$1" sim --scale 200 --losses 1,3,10 | tee /dev/stderr | awk '
    $1 == 200 { lines++; if ($4 > 6 + 3 * ($2 + 1)) bad = 1 }
    END { exit !(lines == 3 && !bad) }'
