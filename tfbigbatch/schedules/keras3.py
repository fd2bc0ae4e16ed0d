"""The schedules as classes of Keras 3."""

from typing import TYPE_CHECKING

import keras

from tfbigbatch.schedules import classes

if TYPE_CHECKING:
    from tfbigbatch.schedules.classes import GradualWarmup, PhasedSchedule, RescaledSchedule
else:
    GradualWarmup, PhasedSchedule, RescaledSchedule = classes.of_keras(keras, keras.ops, __name__)

__all__ = ["GradualWarmup", "PhasedSchedule", "RescaledSchedule"]
