#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Make Debian packages of HEAD into a folder, for the release of Debian or Ubuntu that this machine has: libspotnik0,
# libspotnik-dev, spotnik, python3-spotnik; lintian must have nothing to say. Then install them in a system that debootstrap
# makes, and run packaging/debian/tests there by autopkgtest. Root only. Usage: dev/deb.sh [DIST]
# Needs debhelper, dh-python, lintian, autopkgtest, debootstrap, and what dev/setup.sh build needs.
#   DEBFULLNAME, DEBEMAIL  the maintainer (default: who made the last commit)
#   SYSTEM=DIR             that system, which is there already and may be written to
set -eu
cd "$(dirname "$0")/.."

mkdir -p "${1:-dist}"
dist=$(cd "${1:-dist}" && pwd)
version=$(sed -n "s/^  version: '\(.*\)',/\1/p" meson.build)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022

source=$work/spotnik-$version
mkdir "$source"
git archive HEAD | tar x -C "$source"
mv "$source/packaging/debian" "$source/debian"
maintainer="${DEBFULLNAME:-$(git log -1 --format=%an)} <${DEBEMAIL:-$(git log -1 --format=%ae)}>"
sed -i "s/@MAINTAINER@/$maintainer/" "$source/debian/control"
printf 'spotnik (%s) unstable; urgency=medium\n\n  * Release %s: see CHANGELOG.md.\n\n -- %s  %s\n' \
    "$version" "$version" "$maintainer" "$(git log -1 --format=%cD)" >"$source/debian/changelog"
(cd "$source" && dpkg-buildpackage --build=binary --no-sign) >"$work/log" 2>&1 || {
    tail -n 40 "$work/log" >&2
    exit 1
}
# The packages are made for people, not for Debian's archive: the address may be one that takes no mail.
lintian --allow-root --fail-on error,warning --suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog "$work"/*.changes
cp "$work"/*.deb "$dist"

system=${SYSTEM:-$work/system}
[ -d "$system" ] || debootstrap --variant=minbase "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$system" >"$work/log" 2>&1 || {
    tail -n 3 "$work/log" >&2
    exit 1
}
unshare --mount sh -eu -c '
    mount -t proc proc "$0/proc"
    mount --rbind /dev "$0/dev"
    system=$0
    exec autopkgtest --no-built-binaries "$@" -- chroot "$system"' "$system" "$work"/*.deb "$source/"
(cd "$dist" && sha256sum ./*.deb)
