# SPDX-License-Identifier: Apache-2.0
"""Write a page as an array of C: embed.py NAME INPUT OUTPUT. Defines NAME, NAME_size, and NAME_script for CSP."""

import base64
import hashlib
import sys

name, source, target = sys.argv[1:]
with open(source, "rb") as file:
    data = file.read()
script = data.split(b"<script>")[1].split(b"</script>")[0]
digest = base64.b64encode(hashlib.sha256(script).digest()).decode()
lines = [", ".join(str(byte) for byte in data[at : at + 24]) for at in range(0, len(data), 24)]
with open(target, "w", encoding="ascii") as file:
    file.write("/* SPDX-License-Identifier: Apache-2.0 */\n/* Made by dev/embed.py. */\n#include <stddef.h>\n")
    file.write(f"extern const unsigned char {name}[];\nextern const size_t {name}_size;\n")
    file.write(f"extern const char {name}_script[];\nconst char {name}_script[] = \"'sha256-{digest}'\";\n")
    file.write(f"const unsigned char {name}[] = {{\n    " + ",\n    ".join(lines) + "\n};\n")
    file.write(f"const size_t {name}_size = sizeof {name};\n")
