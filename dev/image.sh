#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Make the image of packaging/image from the wheel in DIST, into DIST/spotnik-image.tar (OCI), and train in it with three
# workers. Without a daemon and without a registry: buildah, and a base that debootstrap makes. Root only.
# Usage: dev/image.sh DIST [BASE]
#   BASE         an image to build on, which is pulled (PyTorch's, say)
#   SYSTEMS=DIR  has bookworm.tar of dev/verify-release.sh
set -eu
cd "$(dirname "$0")/.."

dist=$(realpath "$1")
base=${2:-localhost/spotnik-base}
work=$(mktemp -d)
export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot
store="--root $work/store --runroot $work/run"
trap 'rm -rf "$work"' EXIT

# shellcheck disable=SC2086  # its options are meant to be split
in_store() { buildah $store "$@"; }

if [ -z "${2:-}" ]; then
    system=${SYSTEMS:-$work}/bookworm.tar
    [ -f "$system" ] || {
        debootstrap --variant=minbase --include=python3,python3-venv bookworm "$work/system" >"$work/log" 2>&1 || {
            tail -n 3 "$work/log" >&2
            exit 1
        }
        tar cf "$system" -C "$work/system" --exclude='./dev/*' --exclude='./proc/*' --exclude='./var/cache/apt/archives/*' .
    }
    scratch=$(in_store from scratch)
    in_store add --quiet "$scratch" "$system" / >/dev/null
    in_store commit --quiet --rm "$scratch" "$base" >/dev/null
fi
in_store bud --quiet --build-arg BASE="$base" --tag spotnik --file packaging/image/Containerfile "$dist" >/dev/null
in_store push --quiet spotnik "oci-archive:$dist/spotnik-image.tar"

tried=$(in_store from spotnik)
in_store copy --quiet "$tried" tests/release/train.py /train.py >/dev/null
in_store run "$tried" -- spotnik run -n 2:3 --respawn --kill-every 200ms -- python /train.py 3000 >"$work/out" 2>&1 || {
    tail "$work/out" >&2
    exit 1
}
grep "3000 steps counted" "$work/out" | tail -n 1
grep -o '[1-9][0-9]* killed by us' "$work/out"
