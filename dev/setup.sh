#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# See that the tools and libraries are there which the named work needs (build, test, check, nightly, fuzz or format), and
# get what is missing with apt-get, saying so. Silent, and without network, when nothing is missing.
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

# want PACKAGE TEST...: the same, but the work can be done without it; tests that lack it are skipped and say so.
wanted=
want()
{
    package=$1
    shift
    "$@" >/dev/null 2>&1 || wanted="$wanted $package"
}

has() { command -v "$1"; }

# cc is what Meson takes, unless CC says otherwise.
compiles() { echo '#include <stdio.h>' | ${CC:-cc} -E -; }

links_fuzzers()
{
    program=$(mktemp)
    echo 'int LLVMFuzzerTestOneInput(const char *d, long n); int LLVMFuzzerTestOneInput(const char *d, long n) { return n && *d; }' |
        clang -fsanitize=fuzzer,address,undefined -x c - -o "$program"
    linked=$?
    rm -f "$program"
    return $linked
}

need gcc has "${CC:-cc}"
need libc6-dev compiles
need meson has meson
need ninja-build has ninja
need pkg-config has pkg-config
for module in libcmocka-dev:cmocka libjansson-dev:jansson libssl-dev:libssl libxxhash-dev:libxxhash \
    libcurl4-openssl-dev:libcurl zlib1g-dev:zlib libcminpack-dev:cminpack; do
    need "${module%%:*}" pkg-config --exists "${module#*:}"
done
# Metrics and the live page; the library is built without them where this is missing.
want libmicrohttpd-dev pkg-config --exists libmicrohttpd
# Jobs that meet in a bucket (with libcurl, above); likewise.
want libexpat1-dev pkg-config --exists expat
case $work in
build | test | check | nightly | fuzz | format) ;;
*)
    echo "setup: '$work' is not one of build, test, check, nightly, fuzz, format" >&2
    exit 2
    ;;
esac
# Debian's python3 has the module venv, but not what it needs to put pip into an environment.
case $work in test | check | nightly | format) need python3-venv python3 -c 'import venv, ensurepip' ;; esac
case $work in
test | check | nightly)
    need binutils has nm
    need iproute2 has ip
    need patch has patch # for dev/mutants.sh
    ;;
esac
case $work in
check | nightly)
    need dnsmasq-base has dnsmasq
    need iptables has iptables
    ;;
esac
case $work in
nightly)
    need spin has spin
    need curl has curl # for dev/release.sh
    need abigail-tools has abidiff # for dev/abi.sh
    need debootstrap has debootstrap # for dev/bare.sh
    need debian-archive-keyring test -e /usr/share/keyrings/debian-archive-keyring.gpg
    need buildah has buildah # for dev/image.sh
    [ "$(uname -m)" = aarch64 ] || { # for dev/wheel.sh and dev/neon.sh
        need gcc-aarch64-linux-gnu has aarch64-linux-gnu-gcc
        need libc6-dev-arm64-cross test -e /usr/aarch64-linux-gnu/lib/crti.o # which the former only recommends
        need qemu-user-static has qemu-aarch64-static
    }
    # The next ones are for dev/deb.sh.
    need debhelper has dh
    need dh-python has dh_python3
    need lintian has lintian
    need autopkgtest has autopkgtest
    want prometheus has promtool
    want chromium has chromium
    ;;
esac
case $work in
nightly | fuzz)
    need clang has clang
    # Debian 12 keeps what -fsanitize links in a package of its own, which clang does not ask for.
    need libclang-rt-dev links_fuzzers
    ;;
esac
# What could not be had once is not asked for again.
tried=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/spotnik-setup
for package in $wanted; do
    [ ! -e "$tried/$package" ] || wanted=$(echo "$wanted" | sed "s/ $package\\b//")
done
[ -n "$missing$wanted" ] || exit 0

fail()
{
    echo "setup: missing:$missing" >&2
    echo "setup: $1" >&2
    exit 1
}

[ -n "$missing" ] || has apt-get >/dev/null || exit 0
has apt-get >/dev/null || fail "there is no apt-get here; please install these, or what your system calls them"
sudo=
if [ "$(id -u)" != 0 ]; then
    [ -n "$missing" ] || sudo -n true 2>/dev/null || exit 0
    has sudo >/dev/null || fail "not root and no sudo; please run: apt-get install$missing"
    sudo=sudo
fi
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# install PACKAGE...
install() { $sudo apt-get -qq update && $sudo apt-get -qq -y install --no-install-recommends "$@"; }

if [ -n "$missing" ]; then
    echo "setup: missing:$missing"
    echo "setup: installing with: ${sudo:+$sudo }apt-get install --no-install-recommends$missing"
    # shellcheck disable=SC2086  # the list is meant to be split
    if ! install $missing >"$log" 2>&1; then
        tail -n 5 "$log" >&2
        fail "apt-get did not succeed (its last words are above); is there a network? Then run: apt-get install$missing"
    fi
fi
for package in $wanted; do # one by one: each is worth having without the others
    echo "setup: installing, for more to be built and tested: $package"
    if ! install "$package" >"$log" 2>&1; then
        echo "setup: $package cannot be had; what needs it is left out (to be asked again: rm -r $tried)"
        mkdir -p "$tried" && : >"$tried/$package"
    fi
done
echo "setup: done"
