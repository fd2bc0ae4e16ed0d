"""The schedules as classes of Keras 3; `warmup`, `adjustable_warmup` and `phased` compute them."""

import keras

from tfbigbatch.schedules.adjustable_warmup import AdjustableSchedule
from tfbigbatch.schedules.phased import PhasedSchedules, RescaledSchedules
from tfbigbatch.schedules.warmup import WarmupSchedule

keras_schedules = keras.optimizers.schedules
_registered = keras.saving.register_keras_serializable("tfbigbatch")


class _OfKeras(keras.optimizers.schedules.LearningRateSchedule):
    keras_schedules = keras_schedules
    ops = keras.ops


@_registered
class GradualWarmup(WarmupSchedule, _OfKeras):
    __doc__ = WarmupSchedule.__doc__


@_registered
class AdjustableWarmup(AdjustableSchedule, _OfKeras):
    __doc__ = AdjustableSchedule.__doc__


@_registered
class PhasedSchedule(PhasedSchedules, _OfKeras):
    __doc__ = PhasedSchedules.__doc__


@_registered
class RescaledSchedule(RescaledSchedules, _OfKeras):
    __doc__ = RescaledSchedules.__doc__
