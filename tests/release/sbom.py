# SPDX-License-Identifier: Apache-2.0
"""The installed wheel names what is linked into it, truly, and brings the licences."""

import json
import re
from importlib.metadata import distribution

files = distribution("spotnik").files or []
(sbom,) = [file for file in files if file.match("*.dist-info/sboms/*.json")]
bom = json.loads(sbom.read_text())
parts = {part["name"]: part for part in bom["components"]}
assert sorted(parts) == ["jansson", "openssl", "xxhash", "ziglang"], parts
assert bom["metadata"]["component"]["version"] == distribution("spotnik").version
for part in parts.values():
    name, version = re.fullmatch(r"pkg:\w+/(?:\w+/)?(\w+)@([^?]+)(?:\?.*)?", part["purl"]).groups()
    assert (name, version) == (part["name"], part["version"]) and part["licenses"], part

(library,) = [file for file in files if file.match("*.so") or file.match("*.so.0")]
upstream = parts["openssl"]["version"].split("-")[0]
assert f"\0{upstream}\0".encode() in library.read_binary(), f"{library} has another OpenSSL than {upstream}"

texts = {file.name: file.read_text() for file in files if file.match("*.dist-info/licenses/*")}
assert "Apache License" in texts["LICENSE"]
for name in parts:
    assert "Copyright" in texts[f"{name}.txt"], name
print("sbom:", *(f"{part['name']} {part['version']}" for part in parts.values()))
