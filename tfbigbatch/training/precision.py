"""The precision of a run: the config's, or for `mixed_precision="auto"` what its devices compute fastest in."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from tfbigbatch.config.fields import AUTO, keras_policy
from tfbigbatch.training import strategy as strategies

_CPUINFO = "/proc/cpuinfo"
# The instructions that multiply bfloat16: on tiles, and on vectors.
_INSTRUCTIONS = ("amx_bf16", "avx512_bf16")
# NVIDIA's Ampere: the first GPUs with bfloat16.
_CAPABILITY = (8, 0)


@dataclasses.dataclass(frozen=True)
class Precision:
    """The precision of the layers; variables stay float32.

    Attributes:
      name: 'float32', 'bfloat16' or 'float16'.
      why: for the banner; empty where the config names the precision.
    """

    name: str
    why: str = ""

    def __str__(self) -> str:
        return f"{self.name} (auto: {self.why})" if self.why else self.name


def set_up_keras(seed: int, precision: str) -> None:
    """Clears Keras' session and sets its seed and precision, before a run's network is built."""
    keras.utils.clear_session()
    keras.utils.set_random_seed(seed)
    keras.config.set_dtype_policy(keras_policy(precision))


def run_precision(wanted: str, strategy: tf.distribute.Strategy, content: Mapping[str, Any] | None) -> Precision:
    """The precision of a run; every worker calls it.

    A run that was begun with 'auto' keeps what was chosen then, on any machine. Of several workers all compute in
    bfloat16, or none.

    Args:
      wanted: the config's `mixed_precision`.
      strategy: of the run.
      content: of the run's config.json; None for a new run.
    """
    if wanted != AUTO:
        return Precision(wanted)
    own, recorded = automatic(strategy), (content or {}).get("mixed_precision")
    if recorded:
        here = "" if own.name == recorded else f"; a run that begins here has {own.name}: {own.why}"
        return Precision(recorded, f"as the run began{here}")
    is_slow = own.name == "float32"
    if strategies.is_multi_worker(strategy) and strategies.any_worker(strategy, is_slow) and not is_slow:
        return Precision("float32", "another worker computes in float32")
    return own


def automatic(strategy: tf.distribute.Strategy) -> Precision:
    """The precision that 'auto' stands for on the devices of this process.

    bfloat16 on TPUs, on GPUs of compute capability 8.0 or higher, and on CPUs with instructions for it; else float32.
    """
    if strategies.is_tpu(strategy):
        return Precision("bfloat16", "a TPU")
    if any("GPU" in device for device in strategy.extended.worker_devices):
        return _on_gpus()
    found = bfloat16_instructions()
    if found:
        return Precision("bfloat16", f"the processor has {found}")
    return Precision("float32", f"the processor has neither {' nor '.join(_INSTRUCTIONS)}")


def bfloat16_instructions(path: str = _CPUINFO) -> str | None:
    """The fastest instructions for products in bfloat16 that all processors of this machine have; None for none.

    Args:
      path: of the file in which Linux lists the processors; where there is none, none is found.
    """
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            flags = [set(line.partition(":")[2].split()) for line in file if line.startswith("flags")]
    except OSError:
        return None
    return next((name for name in _INSTRUCTIONS if flags and all(name in each for each in flags)), None)


def _on_gpus() -> Precision:
    details = map(tf.config.experimental.get_device_details, tf.config.list_physical_devices("GPU"))
    lowest = min((each.get("compute_capability") or (0, 0) for each in details), default=(0, 0))
    shown = ".".join(map(str, lowest))
    if lowest >= _CAPABILITY:
        return Precision("bfloat16", f"GPUs of compute capability {shown}")
    return Precision("float32", f"a GPU of compute capability {shown}, below 8.0; float16 is faster there")
