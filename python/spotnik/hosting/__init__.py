# SPDX-License-Identifier: Apache-2.0
"""What the faces for Keras, TensorFlow and JAX share: replicas that live in a framework's memory, and their data.

Needs NumPy alone. Programs use ``spotnik.keras``, ``spotnik.tensorflow`` or ``spotnik.jax``.
"""
