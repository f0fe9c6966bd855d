#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Claim: dev/release.sh names a part whose tools are missing, counts it, and fails. Each tool but lintian and buildah is a
# stand-in, and nothing is made. Usage: test_release.sh SOURCE_ROOT
set -eu

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
for name in sh dirname id mkdir mktemp rm; do
    ln -s "$(command -v "$name")" "$place/$name"
done
for name in dpkg-buildpackage dh dh_python3 debootstrap; do
    printf '#!/bin/sh\nexit 1\n' >"$place/$name"
    chmod +x "$place/$name"
done

if said=$(PATH=$place sh "$1/dev/release.sh" "$place/dist" deb image 2>&1); then
    echo "test_release: it succeeds without lintian and buildah: $said" >&2
    exit 1
fi
for line in 'release: deb is not made, it lacks lintian;' 'release: image is not made, it lacks.* buildah;' 'release: 0 parts made, 2 missing'; do
    echo "$said" | grep -q "^$line" || {
        echo "test_release: '$line' is not in: $said" >&2
        exit 1
    }
done
