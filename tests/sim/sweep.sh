#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every promise holds in COUNT histories from seed FIRST on: sweep.sh SPOTNIK FIRST COUNT. On failure the simulator prints how to replay.
set -eu
exec "$1" sim --seed "$2" --seeds "$3"
