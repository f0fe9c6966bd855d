#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Unpack into FOLDER, unless it is there, what a processor's Debian 12 has of Python and of the libraries that dev/wheel.sh and
# dev/neon.sh link with; security updates are in it. Nothing in it runs, so nothing is configured. Needs apt-get and
# Debian's keys (package debian-archive-keyring), no root. Usage: dev/sysroot.sh PROCESSOR FOLDER
set -eu

[ ! -d "$2" ] || exit 0
case $1 in
x86_64) architecture=amd64 ;;
aarch64) architecture=arm64 ;;
*) echo "sysroot: there is no wheel for $1, but for x86_64 and aarch64" >&2 && exit 2 ;;
esac
root=$(realpath -m "$2").new
rm -rf "$root"
mkdir -p "$root/tmp" "$root/proc" "$root/dev" "$root/root" "$root/apt/lists/partial" "$root/apt/archives/partial"
for folder in bin lib lib64 sbin; do
    mkdir -p "$root/usr/$folder"
    ln -s "usr/$folder" "$root/$folder"
done
: >"$root/apt/status"
for suite in debian\ bookworm debian-security\ bookworm-security; do
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/$suite main"
done >"$root/apt/sources"

apt()
{
    apt-get -qq -o APT::Architecture=$architecture -o APT::Architectures=$architecture -o APT::Install-Recommends=false \
        -o Debug::NoLocking=true -o APT::Sandbox::User=root -o Dir::Etc::SourceList="$root/apt/sources" -o Dir::Etc::SourceParts=- \
        -o Dir::State::status="$root/apt/status" -o Dir::State::lists="$root/apt/lists" -o Dir::Cache="$root/apt" "$@"
}

apt update
apt install --yes --download-only base-files dash coreutils findutils grep sed python3-venv \
    libcminpack-dev libcmocka-dev libjansson-dev libssl-dev libxxhash-dev zlib1g-dev >/dev/null
# Of these the headers serve, so what they depend on is left out.
(cd "$root/apt/archives" && apt download libcurl4-openssl-dev libexpat1-dev libmicrohttpd-dev)
for package in "$root"/apt/archives/*.deb; do
    dpkg -x "$package" "$root"
done
# The link's target is absolute, and would be this machine's.
ln -sf "../../../lib/$1-linux-gnu/libz.so.1" "$root/usr/lib/$1-linux-gnu/libz.so"
rm -r "$root/apt"
mv "$root" "$2"
