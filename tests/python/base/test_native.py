# SPDX-License-Identifier: Apache-2.0
"""The declarations of _native.py against the headers in include/spotnik, read as text: names, order, types, values."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import spotnik
from spotnik import _native, errors

FOLDER = Path(os.environ["SPOTNIK_ROOT"]) / "include/spotnik"
NAMES = ("spotnik.h", "p2p.h", "sync.h", "watch.h", "state.h", "group.h")
HEADER = re.sub(r"/\*.*?\*/", " ", "".join((FOLDER / name).read_text() for name in NAMES), flags=re.S)
CONSTANTS = {name: int(value) for name, value in re.findall(r"#define (SPOTNIK_\w+) (\d+)", HEADER)}
SCALARS = {
    "void": None,
    "int": ctypes.c_int,
    "char": ctypes.c_char,
    "size_t": ctypes.c_size_t,
    "uint32_t": ctypes.c_uint32,
    "uint64_t": ctypes.c_uint64,
    "double": ctypes.c_double,
    "float": ctypes.c_float,
}


def c_type(text: str, stars: int, vectors: bool = False) -> object:
    """The ctypes type of a C declaration's type."""
    words = [word for word in text.split() if word not in ("const", "struct")]
    if words[0] == "enum":
        return ctypes.c_int
    name = words[0]
    if stars == 0:
        return _native.STRUCTS.get(name) or SCALARS[name]
    if name == "char" and stars == 1:
        return ctypes.c_char_p
    opaque = ("void", "spotnik_job", "spotnik_request", "spotnik_sync", "spotnik_group")
    if name in opaque or (name == "float" and vectors):
        return ctypes.c_void_p if stars == 1 else ctypes.POINTER(ctypes.c_void_p)
    return ctypes.POINTER(_native.STRUCTS.get(name) or SCALARS[name])


def struct_fields(body: str) -> list[tuple[str, object]]:
    fields: list[tuple[str, object]] = []
    for declaration in filter(None, (part.strip() for part in body.split(";"))):
        match = re.match(r"((?:const |enum )?\w+) (.*)", declaration, flags=re.S)
        assert match, declaration
        for name in match.group(2).split(","):
            stars = name.count("*")
            word = name.replace("*", "").strip()
            kind = c_type(match.group(1), stars)
            array = re.match(r"(\w+)\[(\w+)\]", word)
            if array:
                length = int(array.group(2)) if array.group(2).isdigit() else CONSTANTS[array.group(2)]
                fields.append((array.group(1), kind * length))  # type: ignore[operator]
            else:
                fields.append((word, kind))
    return fields


STRUCTS = {name: body for body, name in re.findall(r"typedef struct \w+ \{([^}]*)\} (\w+);", HEADER)}
PROTOTYPES = re.findall(r"SPOTNIK_API ((?:const )?\w+)\s+(\*?)(\w+)\(([^;]*)\);", HEADER)


def test_the_header_was_read() -> None:
    assert len(STRUCTS) >= 5
    assert len(PROTOTYPES) == HEADER.count("SPOTNIK_API ") - HEADER.count("#define SPOTNIK_API ")


@pytest.mark.parametrize("name", sorted(_native.STRUCTS))
def test_struct(name: str) -> None:
    declared = [(field[0], field[1]) for field in _native.STRUCTS[name]._fields_]
    assert declared == struct_fields(STRUCTS[name])


def test_every_declared_function_is_in_the_header() -> None:
    """The other way round the package is free to leave out what only C programs need."""
    assert set(_native.FUNCTIONS) <= {prototype[2] for prototype in PROTOTYPES}


def argument(text: str, vectors: bool = False) -> object:
    text = " ".join(text.split())
    if "(*" in text:
        return _native.CALLBACKS[text.split("(*")[1].split(")")[0]]
    array = re.match(r"(.*?)(\w+)\[\d*\]$", text)
    if array:
        return c_type(array.group(1), 1)
    match = re.match(r"((?:const |enum )?\w+) (\**)\w+$", text)
    assert match, text
    return c_type(match.group(1), len(match.group(2)), vectors)


def split_arguments(text: str) -> list[str]:
    """At commas outside of parentheses."""
    parts = re.split(r",(?![^()]*\))", text)
    return [] if parts == ["void"] else parts


DECLARED = [prototype for prototype in PROTOTYPES if prototype[2] in _native.FUNCTIONS]


@pytest.mark.parametrize("prototype", DECLARED, ids=[prototype[2] for prototype in DECLARED])
def test_function(prototype: tuple[str, str, str, str]) -> None:
    result, star, name, arguments = prototype
    declared_result, declared_arguments = _native.FUNCTIONS[name]
    vectors = name.startswith("spotnik_sync_")  # floats there are addresses: the caller has no array of ctypes
    assert declared_result == c_type(result, len(star), vectors)
    assert declared_arguments == [argument(text, vectors) for text in split_arguments(arguments)]


def enum_values(name: str) -> dict[str, int]:
    body = re.search(rf"enum {name} \{{([^}}]*)\}}", HEADER)
    assert body, name
    values: dict[str, int] = {}
    for entry in filter(None, (part.strip() for part in body.group(1).split(","))):
        key, _, value = (part.strip() for part in entry.partition("="))
        values[key] = int(value) if value else max(values.values(), default=-1) + 1
    return values


@pytest.mark.parametrize(
    ("name", "prefix", "kind"),
    [
        ("spotnik_dtype", "SPOTNIK_", _native.Dtype),
        ("spotnik_op", "SPOTNIK_", _native.Op),
        ("spotnik_minority", "SPOTNIK_MINORITY_", _native.Minority),
    ],
)
def test_enum(name: str, prefix: str, kind: type[_native.Dtype]) -> None:
    assert {prefix + one.name: one.value for one in kind} == enum_values(name)


def test_every_error_code_has_its_exception() -> None:
    codes = set(enum_values("spotnik_error").values()) - {0}
    assert set(errors._BY_CODE) == codes


def test_ranges() -> None:
    assert CONSTANTS["SPOTNIK_RANGES_MAX"] == _native.RANGES_MAX
    assert CONSTANTS["SPOTNIK_RECOVERIES_KEPT"] == _native.RECOVERIES_KEPT


@pytest.mark.parametrize(("name", "status"), [("ParkedError", 75), ("LineageError", 76)])
def test_an_uncaught_error_ends_the_program_with_its_status(name: str, status: int) -> None:
    program = f"import spotnik; raise spotnik.{name}('words')"
    done = subprocess.run([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True)
    assert done.returncode == status
    assert done.stderr.rstrip().endswith(f"{name}: words")


def test_one_version() -> None:
    root = FOLDER.parent.parent
    (header,) = re.findall(r'#define SPOTNIK_VERSION "(.*)"', HEADER)
    (built,) = re.findall(r"^  version: '(.*)',", (root / "meson.build").read_text(), flags=re.M)
    command = subprocess.check_output(["spotnik", "--version"], text=True)
    library = _native.load().spotnik_version().decode()
    assert [header, built, command, library] == [spotnik.__version__] * 2 + [f"spotnik {header}\n", header]


def test_a_library_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = _native.VERSION
    monkeypatch.setattr(_native, "VERSION", "99.0.0")
    with pytest.raises(errors.LibraryError, match=f"is version {ours}, and this package is 99.0.0; install both"):
        _native._declare(_native._open())
