#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Show that the wheel of dev/release.sh serves on bare systems, which debootstrap makes: there is Python, no compiler and no
# network. Root only. Usage: dev/verify-release.sh DIST [SUITE...]
# Default: Debian 12 and 11, and Ubuntu 22.04 where its keys are installed (ubuntu-keyring), since root runs what comes.
#   SYSTEMS=DIR  keep the bare systems there, for the next time (default: a temporary folder)
#   WHEELS=DIR   wheels of torch, numpy and all that they need (`pip download torch numpy -d DIR`): spotnik[torch] is
#                installed and a PyTorch script runs, too, in each system whose Python they fit
set -eu
cd "$(dirname "$0")/.."

dist=$(cd "$1" && pwd)
shift
[ $# -gt 0 ] || set -- bookworm bullseye $([ ! -f /usr/share/keyrings/ubuntu-archive-keyring.gpg ] || echo jammy)
wheel=$(echo "$dist"/spotnik-*"$(uname -m)".whl)
[ -f "$wheel" ] || {
    echo "verify-release: $dist holds no wheel for $(uname -m); make it with dev/release.sh $dist" >&2
    exit 1
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# bare SUITE: the path of that system, fresh.
bare()
{
    kept=${SYSTEMS:-$work}/$1.tar
    if ! [ -f "$kept" ]; then
        parts=main
        case $1 in jammy | noble) parts=main,universe ;; esac
        debootstrap --variant=minbase --components=$parts --include=python3,python3-venv "$1" "$work/$1.new" >"$work/log" 2>&1 || {
            tail -n 3 "$work/log" >&2
            echo "verify-release: debootstrap cannot make $1" >&2
            return 1
        }
        tar cf "$kept" -C "$work/$1.new" --exclude='./dev/*' --exclude='./proc/*' --exclude='./var/cache/apt/archives/*' .
        rm -rf "$work/$1.new"
    fi
    mkdir "$work/$1" && tar xf "$kept" -C "$work/$1"
}

# verify SUITE: run tests/release/verify-wheel.sh there.
verify()
{
    bare "$1" || return
    mkdir "$work/$1/wheels"
    cp "$wheel" tests/release/* examples/torch/minimal.py "$work/$1/"
    root=$work/$1 wheels=${WHEELS:-} unshare --mount --pid --fork --net sh -eu -c '
        ip link set lo up
        mount -t proc proc "$root/proc"
        mount --rbind /dev "$root/dev"
        mount -t tmpfs tmpfs "$root/dev/shm"
        [ -z "$wheels" ] || mount --bind "$wheels" "$root/wheels"
        exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root chroot "$root" sh -eu /verify-wheel.sh'
}

failed=
for suite; do
    echo "verify-release: $suite"
    verify "$suite" || failed="$failed $suite"
    rm -rf "${work:?}/$suite"
done
[ -z "$failed" ] || echo "verify-release: failed:$failed" >&2
[ -z "$failed" ]
