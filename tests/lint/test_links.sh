#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Claim: what the documents of the tree point at is there; and dev/links.py sees a dead link, anchor, file, name and option, and
# a rule of the protocol that is not cited, each planted in a tree of its own. Usage: test_links.sh SOURCE_ROOT
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
if "$root/dev/links.py" "$planted" >"$planted/.out" || ! grep -qF "$docs/guide/page.md:1: no link to glossary.md" "$planted/.out"; then
    echo "test_links: a page of the guide without a link to the glossary" >&2
    exit 1
fi
rm -r "$planted/$docs/guide" "$planted/$docs/page.md"

# plant_rule COMMENT [EXPECTED]: a file of rules with this comment passes; with EXPECTED it is refused with these words.
mkdir "$planted/src/membership"
printf '# The protocol\n\n## 4. Loss\n\nRule [`membership/a.c`].\n\nTested by `tests/a.c`.\n\n## 5. Views\n\nNone.\n' \
    >"$planted/$docs/protocol.md"
mkdir "$planted/tests"
: >"$planted/tests/a.c"
plant_rule()
{
    printf '/* %b */\n' "$1" >"$planted/src/membership/a.c"
    if "$root/dev/links.py" "$planted" >"$planted/.out"; then refused=; else refused=yes; fi
    if [ "${2:-}" = "" ] && [ "$refused" ] || [ "${2:-}" ] && ! grep -qF "src/membership/a.c:1: $2" "$planted/.out"; then
        echo "test_links: of the rule '$1' was expected '${2:-nothing}', and said:" >&2
        cat "$planted/.out" >&2
        exit 1
    fi
}

plant_rule "Rules: $docs/protocol.md 4."
plant_rule "Rules:\n * $docs/protocol.md\n * 4."
plant_rule "No rule of the protocol is here." "does not cite section 4 of $docs/protocol.md"
plant_rule "Rules: $docs/protocol.md 4 and 5." "cites section 5 of $docs/protocol.md"
plant_rule "Rules: $docs/protocol.md 4, 5 and 9." "cites section 9 of $docs/protocol.md"
plant_rule "Rules: $docs/protocol.md 4."
echo '/* b */' >"$planted/src/membership/b.c"
if "$root/dev/links.py" "$planted" >"$planted/.out" || ! grep -qF "src/membership/b.c:1: cites no section" "$planted/.out"; then
    echo "test_links: a file of rules that cites no section" >&2
    exit 1
fi
rm "$planted/src/membership/b.c"
sed -i '/^Tested by/d' "$planted/$docs/protocol.md"
if "$root/dev/links.py" "$planted" >"$planted/.out" || ! grep -qF "section 4 names no test" "$planted/.out"; then
    echo "test_links: a section without a test" >&2
    exit 1
fi
