#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Claim: dev/setup.sh fuzz asks for clang's runtime library where clang is there and cannot link a fuzz target (a clean
# Debian 12), asks for clang, too, where there is none, and is silent where both are there. Every tool is a stand-in of
# its own PATH, so nothing is installed. Usage: test_setup.sh SOURCE_ROOT
set -eu

root=$1
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

# tool NAME BODY: a program of this name, first on the PATH.
tool()
{
    printf '#!/bin/sh\n%s\n' "$2" >"$place/$1"
    chmod +x "$place/$1"
}

for name in cc meson ninja pkg-config; do
    tool "$name" 'exit 0'
done
for name in sh mktemp rm cat tail id mkdir; do
    ln -s "$(command -v "$name")" "$place/$name"
done
tool apt-get 'exit 0'
tool sudo 'exit 0'

# asks FOR: what setup.sh says it is missing is exactly this.
asks()
{
    said=$(PATH=$place CC=cc "$place/sh" "$root/dev/setup.sh" fuzz)
    found=$(echo "$said" | sed -n 's/^setup: missing: //p')
    [ "$found" = "$1" ] || {
        echo "test_setup: with $2 it asks for '$found', not for '$1'" >&2
        exit 1
    }
}

asks 'clang libclang-rt-dev' 'no clang'
tool clang 'exit 1'
asks 'libclang-rt-dev' 'a clang that cannot link'
tool clang 'exit 0'
asks '' 'all there'

# dev/python.sh asks pip for packages and for nothing else: the name of the tier, which it has as an argument, is none.
mkdir -p "$place/venv/bin"
cat >"$place/venv/bin/python" <<END
#!/bin/sh
case "\$*" in
"-m pip --version") ;;
"-m pip install"*) echo "\$*" >>"$place/asked" ;;
"- "*) echo numpy pytest ;;
esac
END
chmod +x "$place/venv/bin/python"
sh "$root/dev/python.sh" "$place/venv" quick >/dev/null
case $(cat "$place/asked") in
*" 1 numpy pytest") ;; # behind --retries 1
*)
    echo "test_setup: dev/python.sh asks pip with: $(cat "$place/asked")" >&2
    exit 1
    ;;
esac
