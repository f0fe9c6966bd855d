# SPDX-License-Identifier: Apache-2.0
"""The loop that the adapters for Keras, TensorFlow and JAX share: replicas in a framework's memory, and their data.

Needs NumPy alone. Programs use ``spotnik.keras``, ``spotnik.tensorflow`` or ``spotnik.jax``.
"""
