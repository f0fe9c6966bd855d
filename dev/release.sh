#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Make what is released into a folder; the same commit and the same packages of Debian yield the same bytes. Parts:
#   x86_64, aarch64  the sdist, a wheel, its SBOM (dev/wheel.sh)
#   deb              packages for the release of Debian or Ubuntu that this machine has (dev/deb.sh)
#   image            a container image with the wheel of this machine's processor, made before (dev/image.sh); root only
# A part that lacks a tool is named and counted, and the others are made. Usage: dev/release.sh [DIST [PART...]]
#   SYSTEMS=DIR  keep there, for the next time, what the parts are made from: dev/sysroot.sh, dev/bare.sh
set -eu
cd "$(dirname "$0")/.."

dist=${1:-dist}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- x86_64 aarch64 deb image
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
SYSTEMS=${SYSTEMS:-$work}
export SYSTEMS

# lacks PART: the tools that are missing for it.
lacks()
{
    case $1 in
    deb) tools="dpkg-buildpackage dh dh_python3 lintian" ;;
    image) [ "$(id -u)" = 0 ] && tools="buildah debootstrap" || tools="root buildah debootstrap" ;;
    *) tools="apt-get curl $1-linux-gnu-objcopy pkg-config" ;;
    esac
    for tool in $tools; do
        command -v "$tool" >/dev/null || printf ' %s' "$tool"
    done
}

processors=
others=
missing=0
for part; do
    lacked=$(lacks "$part")
    case ${lacked:+lacks}$part in
    lacks*)
        missing=$((missing + 1))
        echo "release: $part is not made, it lacks$lacked; dev/setup.sh nightly installs that" >&2
        ;;
    deb | image) others="$others $part" ;;
    *) processors="$processors $part" ;;
    esac
done
mkdir -p "$dist"
rm -f "$dist"/*spotnik* "$dist/SHA256SUMS"
# shellcheck disable=SC2086  # the list is meant to be split
[ -z "$processors" ] || dev/wheel.sh "$dist" $processors
for part in $others; do
    "dev/$part.sh" "$dist"
done
[ -z "$processors$others" ] || (cd "$dist" && sha256sum -- *spotnik* | tee SHA256SUMS)
echo "release: $(($# - missing)) parts made, $missing missing"
[ "$missing" = 0 ]
