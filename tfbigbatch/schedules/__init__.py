"""Learning-rate schedules in optimizer steps: a gradual warm-up, then a decay selected by name.

`build` makes the schedule of a whole run for either Keras, `in_phases` joins several. `GradualWarmup`, and
`RescaledSchedule`, which reads another one at its own pace, are the classes of the `tf.keras` in use. `to_steps`
converts durations such as '40 epochs' to steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfbigbatch.lazy_names import LazyNames
from tfbigbatch.schedules.by_name import DECAYS, build
from tfbigbatch.schedules.classes import in_phases
from tfbigbatch.schedules.durations import to_steps

if TYPE_CHECKING:
    from tfbigbatch.schedules.keras3 import GradualWarmup, RescaledSchedule

__all__ = ["DECAYS", "GradualWarmup", "RescaledSchedule", "build", "in_phases", "to_steps"]
_lazy = LazyNames(__name__, {}, ("GradualWarmup", "RescaledSchedule"))
__getattr__, __dir__ = _lazy.get, _lazy.names
