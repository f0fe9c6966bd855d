#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Claim: what the documents of the tree point at is there; and dev/links.py sees a dead link, anchor, file, name and option, each
# planted in a tree of its own. Usage: test_links.sh SOURCE_ROOT
set -eu

root=$1
"$root/dev/links.py" "$root"

docs=docs # apart from the name behind it: this file is checked, too
planted=$(mktemp -d)
trap 'rm -rf "$planted"' EXIT
mkdir -p "$planted/src/core" "$planted/docs"
echo '/* void spotnik_core_step(); */ /* "min" */' >"$planted/src/core/core.c"

# plant TEXT [EXPECTED]: a page of this text passes; with EXPECTED it is refused with these words.
plant()
{
    printf '%b\n' "# A page\n\n$1" >"$planted/$docs/page.md"
    if "$root/dev/links.py" "$planted" >"$planted/.out"; then refused=; else refused=yes; fi
    if [ "${2:-}" = "" ] && [ "$refused" ] || [ "${2:-}" ] && ! grep -qF "$docs/page.md:3: $2" "$planted/.out"; then
        echo "test_links: of '$1' was expected '${2:-nothing}', and said:" >&2
        cat "$planted/.out" >&2
        exit 1
    fi
}

plant '[a](../src/core/core.c), [b](page.md#a-page), `core/core.c: spotnik_core_step`, `spotnik run --min 3`'
plant '[a](gone.md)' 'gone.md is not there'
plant '[a](#gone)' '#gone: that page has no such heading'
plant "see $docs/gone.md" "$docs/gone.md is not there"
plant 'see `src/core/gone.c`' 'src/core/gone.c is not there'
plant 'see `gone.c`' 'no file is called gone.c'
plant 'see `core/core.c: gone`' 'core/core.c has no gone'
plant 'call `spotnik_gone()`' 'spotnik_gone stands in no source'
plant 'say `spotnik run --gone`' '--gone is no option in the sources'
mkdir "$planted/$docs/guide"
echo '# A page of the guide' >"$planted/$docs/guide/page.md"
if "$root/dev/links.py" "$planted" >"$planted/.out" || ! grep -qF "$docs/guide/page.md:1: no link to ARCHITECTURE.md#glossary" "$planted/.out"; then
    echo "test_links: a page of the guide without a link to the glossary" >&2
    exit 1
fi
