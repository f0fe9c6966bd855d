# SPDX-License-Identifier: Apache-2.0
"""How a member in a test tells what it saw: JSON, one value a line."""

import json
from typing import Any


def tell(value: Any) -> None:
    print(json.dumps(value), flush=True)
