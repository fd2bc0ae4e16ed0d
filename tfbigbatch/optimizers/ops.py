"""The functions of tensors that the formulas are written in: those of TensorFlow, or of Keras 3 on another backend.

`of` gives them for a tensor; formulas then read the same for all backends. TensorFlow's are the functions of `tf`
themselves, so that nothing comes between.
"""

from __future__ import annotations

import functools
import importlib
import types
from typing import Any

# A tensor of any backend.
Tensor = Any

_OF_KERAS = ("jax", "jaxlib", "torch")


def of(tensor: Tensor) -> types.ModuleType:
    """`ops_tensorflow`, or `ops_keras` for a tensor of JAX or PyTorch, traced ones included."""
    package = type(tensor).__module__.partition(".")[0]
    return _module("ops_keras" if package in _OF_KERAS else "ops_tensorflow")


@functools.cache
def _module(name: str) -> types.ModuleType:
    return importlib.import_module(f"tfbigbatch.optimizers.{name}")
