"""Learning-rate schedules in optimizer steps: a gradual warm-up, then a decay selected by name.

`build` makes the schedule of a whole run for either Keras; `to_steps` converts durations such as '40 epochs' to steps.
"""

from __future__ import annotations

from tfbigbatch.schedules.by_name import build
from tfbigbatch.schedules.durations import to_steps

__all__ = ["build", "to_steps"]
