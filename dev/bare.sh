#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Pack a bare system of Debian or Ubuntu into a tar file, unless it is there: Python with venv, no compiler. The same
# packages yield the same bytes. Root only. Usage: dev/bare.sh SUITE TAR
# Ubuntu's systems want its keys (package ubuntu-keyring, which Debian 12 does not have), since root runs what comes.
set -eu

[ ! -f "$2" ] || exit 0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
SOURCE_DATE_EPOCH=$(git -C "$(dirname "$0")" log -1 --format=%ct)
export SOURCE_DATE_EPOCH
umask 022

case $1 in
jammy | noble) # gutsy is debootstrap's script for all of Ubuntu, which has a mirror of its own for other processors
    mirror=http://archive.ubuntu.com/ubuntu
    [ "$(uname -m)" = x86_64 ] || mirror=http://ports.ubuntu.com/ubuntu-ports
    set -- "$1" "$2" "$mirror" gutsy
    ;;
*) set -- "$1" "$2" ;;
esac
suite=$1
tar=$2
shift 2
debootstrap --variant=minbase --components="main${1:+,universe}" --include=python3,python3-venv "$suite" "$work/system" "$@" \
    >"$work/log" 2>&1 || {
    tail -n 3 "$work/log" >&2
    echo "bare: debootstrap cannot make $suite" >&2
    exit 1
}
# What tells of this machine or of this hour is left out.
rm -f "$work/system/etc/hostname" "$work/system/etc/resolv.conf"
find "$work/system/var/log" -type f -delete
tar cf "$tar.new" -C "$work/system" --sort=name --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --clamp-mtime \
    --exclude='./dev/*' --exclude='./proc/*' --exclude='./sys/*' --exclude='./var/cache/apt/*' --exclude='./var/cache/ldconfig/*' \
    --exclude='./var/lib/apt/lists/*' --exclude='./var/cache/debconf/*-old' --exclude='./var/lib/dpkg/*-old' .
mv "$tar.new" "$tar"
