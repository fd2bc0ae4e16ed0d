"""Learning-rate schedules in optimizer steps: a gradual warm-up, then a decay selected by name.

`build` makes the schedule of a whole run for either Keras, `in_phases` joins several. `GradualWarmup`, and
`RescaledSchedule`, which reads another one at its own pace, are the classes of the `tf.keras` in use. `to_steps`
converts durations such as '40 epochs' to steps.
"""

from __future__ import annotations

from typing import Any

from tfbigbatch.lazy_names import LazyNames

_HOMES = {
    "DECAYS": "by_name",
    "build": "by_name",
    "in_phases": "phased",
    "to_steps": "durations",
}
_CLASSES = ("GradualWarmup", "RescaledSchedule")

__all__ = [*_HOMES, *_CLASSES]
_lazy = LazyNames(__name__, _HOMES, _CLASSES)


def __getattr__(name: str) -> Any:
    return _lazy.get(name)


def __dir__() -> list[str]:
    return _lazy.names()
