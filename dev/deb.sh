#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Make Debian packages of HEAD into a folder, for the release of Debian or Ubuntu that this machine has: libspotnik0,
# libspotnik-dev, spotnik, python3-spotnik; lintian must have nothing to say. With SYSTEM, a bare system that may be written
# to, install those of the folder there instead, and run packaging/debian/tests by autopkgtest; root only.
# Needs debhelper, dh-python, lintian, autopkgtest, and what dev/setup.sh build needs. Usage: dev/deb.sh DIST [SYSTEM]
#   DEBFULLNAME, DEBEMAIL  the maintainer (default: who made the last commit)
set -eu
cd "$(dirname "$0")/.."

dist=$(realpath "$1")
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

if [ $# = 2 ]; then
    cp -L /etc/resolv.conf "$2/etc/"
    unshare --mount sh -eu -c '
        mount -t proc proc "$0/proc"
        mount --rbind /dev "$0/dev"
        system=$0
        autopkgtest --apt-upgrade --no-built-binaries "$@" -- chroot "$system"' "$2" "$dist"/*.deb "$source/" \
        >"$work/log" 2>&1 || { # a log of its own, since it empties the file that it writes to
        tail -n 40 "$work/log" >&2
        exit 1
    }
    grep -aE '^[a-z]+ +PASS' "$work/log" | sort -u
    exit
fi
(cd "$source" && dpkg-buildpackage --build=binary --no-sign) >"$work/log" 2>&1 || {
    tail -n 40 "$work/log" >&2
    exit 1
}
# The packages are made for people, not for Debian's archive: the address may be one that takes no mail.
lintian --allow-root --fail-on error,warning --suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog "$work"/*.changes
cp "$work"/*.deb "$dist"
