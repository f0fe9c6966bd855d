#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Show that what dev/release.sh made serves where nothing else is. Root only. Usage: dev/verify-release.sh DIST [WHAT...]
#   bookworm, jammy...  this machine's wheel in a bare system (dev/bare.sh): Python, no compiler, no network
#   aarch64             that processor's wheel in an unpacked system (dev/sysroot.sh), under qemu-user; wants Linux 6.7
#   sdist               it compiles with this machine's libraries, without a network
#   deb                 the packages, by autopkgtest, in a bare system of this machine's release
#   image               workers train in it through kills
# Default: all that DIST holds, in Debian 11 to 13, and Ubuntu 22.04 and 24.04 where their keys are installed (ubuntu-keyring).
#   SYSTEMS=DIR  keep the systems there, for the next time (default: a temporary folder)
#   WHEELS=DIR   wheels of torch, numpy and all that they need (`pip download torch numpy -d DIR`): spotnik[torch] is
#                installed and a PyTorch script runs, too, in each system whose Python they fit
set -eu
cd "$(dirname "$0")/.."

dist=$(realpath "$1")
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
systems=${SYSTEMS:-$work/systems}
mkdir -p "$systems"

# held NAME FILE: the name, if the file is there.
held() { [ ! -e "$2" ] || echo "$1"; }

# all: what the default is.
all()
{
    [ ! -e "$(echo "$dist"/*"$(uname -m)".whl)" ] || {
        echo bookworm bullseye trixie
        held jammy /usr/share/keyrings/ubuntu-archive-keyring.gpg
        held noble /usr/share/keyrings/ubuntu-archive-keyring.gpg
    }
    [ "$(uname -m)" = aarch64 ] || held aarch64 "$(echo "$dist"/*_aarch64.whl)"
    held sdist "$(echo "$dist"/*.tar.gz)"
    held deb "$(echo "$dist"/libspotnik0_*_"$(dpkg --print-architecture)".deb)"
    held image "$dist/spotnik-image-$(uname -m).tar"
}

# bare SUITE: the system, fresh, in $root.
bare()
{
    dev/bare.sh "$1" "$systems/$1.tar" || return
    mkdir "$root" && tar xf "$systems/$1.tar" -C "$root"
}

# enter PROCESSOR OPTION...: run tests/release/verify-wheel.sh in $root with that wheel, in the namespaces of unshare's options.
enter()
{
    mkdir "$root/wheels"
    cp "$dist"/spotnik-*"$1".whl tests/release/* examples/torch/minimal.py "$root/"
    foreign=
    [ "$1" = "$(uname -m)" ] || foreign=$(command -v "qemu-$1-static" || command -v "qemu-$1")
    shift
    # The bytes are those of the head of a 64-bit ARM's program; the kernel reads the escapes.
    root=$root wheels=${WHEELS:-} foreign=$foreign unshare "$@" --mount --pid --fork --net sh -eu -c '
        ip link set lo up
        mount -t proc proc "$root/proc"
        mount --rbind /dev "$root/dev"
        mount -t tmpfs tmpfs "$root/dev/shm"
        [ -z "$wheels" ] || mount --bind "$wheels" "$root/wheels"
        [ -z "$foreign" ] || {
            mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
            printf %s ":arm:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00:\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:$foreign:F" >/proc/sys/fs/binfmt_misc/register
        }
        exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root EMULATED="$foreign" chroot "$root" sh -eu /verify-wheel.sh'
}

aarch64()
{
    dev/sysroot.sh aarch64 "$systems/aarch64" || return
    cp -a "$systems/aarch64" "$root"
    enter aarch64 --user --map-root-user
}

sdist()
{
    mkdir "$root" && tar xzf "$dist"/spotnik-*.tar.gz -C "$root" --strip-components=1 || return
    unshare --net sh -eu -c 'meson setup -Dtests=false "$0/build" "$0" && ninja -C "$0/build"' "$root" >"$work/log" 2>&1 || {
        tail "$work/log" >&2
        return 1
    }
    "$root/build/cli/spotnik" --version
}

deb() { bare "$(. /etc/os-release && echo "$VERSION_CODENAME")" && dev/deb.sh "$dist" "$root"; }

# train EVERY PROGRAM [STEPS]: three workers of it in the container, of which one is killed every so often.
train()
{
    buildah run "$container" -- spotnik run -n 2:3 --respawn --kill-every "$1" -- python "$2" $3 >"$work/log" 2>&1 || {
        tail "$work/log" >&2
        return 1
    }
    grep -E -m 1 "3000 steps counted|epoch 19" "$work/log" || return
    grep -o '[1-9][0-9]* killed by us' "$work/log"
}

image()
{
    export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot
    buildah() { command buildah --root "$work/store" --runroot "$work/run" "$@"; }
    container=$(buildah from "oci-archive:$dist/spotnik-image-$(uname -m).tar") || return
    buildah copy --quiet "$container" tests/release/train.py examples/torch/minimal.py / >/dev/null || return
    train 200ms /train.py 3000 || return
    ! buildah run "$container" -- python -c 'import torch' 2>"$work/log" || train 3s /minimal.py ''
}

verify()
{
    root=$work/$1
    case $1 in
    aarch64 | sdist | deb | image) "$1" ;;
    *) bare "$1" && enter "$(uname -m)" ;;
    esac
}

failed=
# shellcheck disable=SC2046  # the list is meant to be split
[ $# -gt 0 ] || set -- $(all)
[ $# -gt 0 ] || failed=" $dist, which holds nothing of this machine"
for what; do
    echo "verify-release: $what"
    verify "$what" || failed="$failed $what"
    rm -rf "${work:?}/$what"
done
[ -z "$failed" ] || echo "verify-release: failed:$failed" >&2
[ -z "$failed" ]
