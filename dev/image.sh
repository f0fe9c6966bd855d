#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Make the image of packaging/image from the wheel in DIST, into DIST/spotnik-image-PROCESSOR.tar (OCI). Without a daemon and without a
# registry: buildah, and a base that dev/bare.sh makes. Root only. dev/verify-release.sh trains in it. Usage: dev/image.sh DIST
#   BASE         an image to build on, which is pulled (PyTorch's, say), or oci-archive:FILE
#   SYSTEMS=DIR  keep Debian's bare system there, for the next time
set -eu
cd "$(dirname "$0")/.."

dist=$(realpath "$1")
work=$(mktemp -d)
export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot
store="--root $work/store --runroot $work/run"
trap 'rm -rf "$work"' EXIT
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)

# shellcheck disable=SC2086  # its options are meant to be split
in_store() { buildah $store "$@"; }

if [ -z "${BASE:-}" ]; then
    BASE=localhost/spotnik-base
    system=${SYSTEMS:-$work}/bookworm.tar
    dev/bare.sh bookworm "$system"
    scratch=$(in_store from scratch)
    in_store add --quiet "$scratch" "$system" / >/dev/null
    in_store commit --quiet --rm --timestamp "$SOURCE_DATE_EPOCH" "$scratch" "$BASE" >/dev/null
fi
in_store bud --quiet --timestamp "$SOURCE_DATE_EPOCH" --build-arg SOURCE_DATE_EPOCH="$SOURCE_DATE_EPOCH" --build-arg BASE="$BASE" \
    --tag spotnik --file packaging/image/Containerfile "$dist" >/dev/null
in_store push --quiet spotnik "oci:$work/image:spotnik"
# Its archive would hold the time of now.
tar cf "$dist/spotnik-image-$(uname -m).tar" -C "$work/image" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" .
