# SPDX-License-Identifier: Apache-2.0
"""The one training loop: a collective is a step, and a newcomer must be able to repeat it.

The adapters (``spotnik.torch``, ``.keras``, ``.jax``, ``.tensorflow``, the process group, torchft) are composed of what
stands here. docs/design/0015-python.md says what each object decides. Replicas in a framework's memory, loops and data
need NumPy; the rest needs neither that nor a framework.
"""
