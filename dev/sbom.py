#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write into an unpacked wheel what is linked into it: an SBOM (PEP 770, CycloneDX) and the licences.

Usage: sbom.py WHEEL_FOLDER SYSROOT JANSSON_VERSION JANSSON_SHA256 ZIG_VERSION

SYSROOT is that of dev/sysroot.sh.
"""

from __future__ import annotations

import datetime
import gzip
import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

LICENCE = Path(__file__).parent.parent / "LICENSE"


def component(name: str, version: str, licence: str, purl: str) -> dict[str, Any]:
    """One entry of the SBOM."""
    entry = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
    return {**entry, "licenses": [{"license": {"id": licence}}]}


def debian(root: Path, package: str, licence: str) -> dict[str, Any]:
    """What came out of a Debian package; the first line of its changelog is "SOURCE (VERSION) ..."."""
    with gzip.open(root / f"usr/share/doc/{package}/changelog.Debian.gz", "rt") as changelog:
        source, version = changelog.readline().split()[:2]
    system = dict(re.findall(r'^(ID|VERSION_ID)="?([^"\n]+)', (root / "usr/lib/os-release").read_text(), re.MULTILINE))
    distro = f"{system['ID']}-{system['VERSION_ID']}"
    version = version.strip("()")
    purl = f"pkg:deb/{system['ID']}/{source}@{quote(version, safe='~')}?arch=source&distro={distro}"
    return component(source, version, licence, purl)


def bom(version: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
    """The SBOM. Its only time is that of the commit, and it has no random number."""
    made = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
    itself = component("spotnik", version, "Apache-2.0", f"pkg:pypi/spotnik@{version}")
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"timestamp": made.strftime("%Y-%m-%dT%H:%M:%SZ"), "component": itself},
        "components": parts,
        "dependencies": [{"ref": itself["bom-ref"], "dependsOn": [part["bom-ref"] for part in parts]}],
    }


def main() -> None:
    """Write both folders of .dist-info."""
    folder, root, jansson, sha256, zig = sys.argv[1:]
    info = next(Path(folder).glob("*.dist-info"))
    parts = [
        debian(Path(root), "libssl-dev", "Apache-2.0"),
        component("jansson", jansson, "MIT", f"pkg:generic/jansson@{jansson}?checksum=sha256:{sha256}"),
        debian(Path(root), "libxxhash-dev", "BSD-2-Clause"),
        component("ziglang", zig, "MIT", f"pkg:pypi/ziglang@{zig}"),  # its compiler-rt
    ]
    (info / "sboms").mkdir()
    text = json.dumps(bom(info.stem.split("-")[1], parts), indent=1)
    (info / "sboms" / "spotnik.cdx.json").write_text(text + "\n")
    licences = info / "licenses"
    licences.mkdir(exist_ok=True)
    shutil.copy(LICENCE, licences)  # OpenSSL's licence, too
    for package, name in (("libssl-dev", "openssl"), ("libjansson-dev", "jansson"), ("libxxhash-dev", "xxhash")):
        shutil.copy(f"{root}/usr/share/doc/{package}/copyright", licences / f"{name}.txt")
    import ziglang

    shutil.copy(Path(ziglang.__file__).parent / "LICENSE", licences / "ziglang.txt")


main()
