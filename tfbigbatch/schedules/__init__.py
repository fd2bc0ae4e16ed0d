"""Learning-rate schedules in optimizer steps: a gradual warm-up, then a decay selected by name.

`build` makes the schedule of a whole run for either Keras, `in_phases` joins several. `GradualWarmup`, and
`RescaledSchedule`, which reads another one at its own pace, are the classes of the `tf.keras` in use. `to_steps`
converts durations such as '40 epochs' to steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfbigbatch import lazy_names
from tfbigbatch.schedules.by_name import DECAYS, build
from tfbigbatch.schedules.classes import in_phases
from tfbigbatch.schedules.durations import to_steps

if TYPE_CHECKING:
    from tfbigbatch.schedules.keras3 import GradualWarmup, RescaledSchedule

__all__ = ["DECAYS", "GradualWarmup", "RescaledSchedule", "build", "in_phases", "to_steps"]
__getattr__, __dir__ = lazy_names.of(__name__, {}, for_keras=("GradualWarmup", "RescaledSchedule"), modules=["keras3"])
