# SPDX-License-Identifier: Apache-2.0
"""What importing the package needs.

Claims: spotnik imports where neither NumPy nor a framework can be imported.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

FRAMEWORKS = (
    "numpy",
    "keras",
    "tensorflow",
    "jax",
    "optax",
    "flax",
    "torch",
    "lightning",
    "transformers",
    "accelerate",
)


@pytest.mark.quick
def test_importing_needs_no_framework() -> None:
    program = f"import sys; sys.modules.update(dict.fromkeys({FRAMEWORKS}))  # an import of any fails\nimport spotnik"
    subprocess.run([sys.executable, "-c", program], check=True)
