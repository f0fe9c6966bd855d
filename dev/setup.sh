#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# See that the tools and libraries are there which the named work needs (build, test, fuzz or format), and get what is
# missing with apt-get, saying so. Silent, and without network, when nothing is missing.
set -eu

work=${1:-build}
missing=

# need PACKAGE TEST...: note the package unless the test succeeds.
need()
{
    package=$1
    shift
    "$@" >/dev/null 2>&1 || missing="$missing $package"
}

has() { command -v "$1"; }

# cc is what Meson takes, unless CC says otherwise.
compiles() { echo '#include <stdio.h>' | ${CC:-cc} -E -; }

need gcc has "${CC:-cc}"
need libc6-dev compiles
need meson has meson
need ninja-build has ninja
need pkg-config has pkg-config
for module in libcmocka-dev:cmocka libjansson-dev:jansson libssl-dev:libcrypto libxxhash-dev:libxxhash \
    libsqlite3-dev:sqlite3 zlib1g-dev:zlib libcminpack-dev:cminpack; do
    need "${module%%:*}" pkg-config --exists "${module#*:}"
done
case $work in
build) ;;
test)
    need spin has spin
    need binutils has nm
    need iproute2 has ip
    need patch has patch # for dev/mutants.sh
    # Debian's python3 has the module venv, but not what it needs to put pip into an environment.
    need python3-venv python3 -c 'import venv, ensurepip'
    ;;
fuzz) need clang has clang ;;
format) need clang-format has clang-format ;;
*)
    echo "setup: '$work' is not one of build, test, fuzz, format" >&2
    exit 2
    ;;
esac
[ -n "$missing" ] || exit 0

fail()
{
    echo "setup: missing:$missing" >&2
    echo "setup: $1" >&2
    exit 1
}

has apt-get >/dev/null || fail "there is no apt-get here; please install these, or what your system calls them"
sudo=
if [ "$(id -u)" != 0 ]; then
    has sudo >/dev/null || fail "not root and no sudo; please run: apt-get install$missing"
    sudo=sudo
fi
echo "setup: missing:$missing"
echo "setup: installing with: ${sudo:+$sudo }apt-get install --no-install-recommends$missing"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# shellcheck disable=SC2086  # the list is meant to be split
if ! { $sudo apt-get -qq update && $sudo apt-get -qq -y install --no-install-recommends $missing; } >"$log" 2>&1; then
    tail -n 5 "$log" >&2
    fail "apt-get did not succeed (its last words are above); is there a network? Then run: apt-get install$missing"
fi
echo "setup: done"
