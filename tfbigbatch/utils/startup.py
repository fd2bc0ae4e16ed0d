"""The start of a process that trains: TensorFlow's import, and the seconds of each part of the start."""

from __future__ import annotations

import gc
import importlib
import sys
import time

_NOT_FOR_TRAINING = ("jax", "matplotlib", "sklearn", "IPython")
"""Packages that TensorFlow and Keras import where they are installed, and training does not need."""
_IMPORTED_AT = time.perf_counter()


class StartTimings:
    """The seconds of each part of a run's start, up to the end of its first step.

    Args:
      age: seconds that the start took already; see `process_age`.

    Attributes:
      seconds: of each part that there was, in their order, by its name in status.json: config, tensorflow, devices,
        data, model, checkpoint, input, evaluation, tracing, first_step.
      traces: how often the training step was traced; 0 before it is.
    """

    def __init__(self, age: float = 0.0) -> None:
        self.seconds: dict[str, float] = {}
        self.traces = 0
        self._last = time.perf_counter() - age

    def mark(self, part: str) -> None:
        """Adds the seconds since the previous mark to a part; `part` is one of those in status.json."""
        now = time.perf_counter()
        self.seconds[part] = self.seconds.get(part, 0.0) + now - self._last
        self._last = now

    def elapsed(self) -> float:
        """Seconds since the start, with those of no part yet."""
        return sum(self.seconds.values()) + time.perf_counter() - self._last

    @property
    def is_complete(self) -> bool:
        """True after the first step."""
        return "first_step" in self.seconds

    def content(self) -> dict[str, float]:
        """The seconds by part, their sum as 'total', and the number of traces; for status.json."""
        parts = {name: round(seconds, 3) for name, seconds in self.seconds.items()}
        return {**parts, "total": round(sum(self.seconds.values()), 3), "traces": self.traces}


def process_age() -> float:
    """Seconds since this module was imported, which a command does first."""
    return time.perf_counter() - _IMPORTED_AT


def import_tensorflow() -> None:
    """Imports TensorFlow and Keras for training, in three quarters of the time; nothing where they are there already.

    TensorFlow imports JAX to convert it for mobiles, Keras imports Matplotlib, scikit-learn and IPython for plots and
    wrappers; both do without where their import fails. They come when someone imports them. The collector of cyclic
    garbage is paused meanwhile, and does not visit later what is there now.
    """
    if "tensorflow" in sys.modules:
        return
    left_out = [name for name in _NOT_FOR_TRAINING if name not in sys.modules]
    gc.disable()
    try:
        for name in left_out:
            sys.modules[name] = None  # type: ignore[assignment]  # how Python makes an import fail
        try:
            importlib.import_module("tensorflow")
            importlib.import_module("keras")
        finally:
            for name in left_out:
                del sys.modules[name]
        gc.freeze()
    finally:
        gc.enable()
