"""The schedules as classes of tf_keras (Keras 2); `warmup`, `adjustable_warmup` and `phased` compute them."""

import tensorflow as tf
import tf_keras

from tfbigbatch.schedules.adjustable_warmup import AdjustableSchedule
from tfbigbatch.schedules.phased import PhasedSchedules, RescaledSchedules
from tfbigbatch.schedules.warmup import WarmupSchedule

keras_schedules = tf_keras.optimizers.schedules
_registered = tf_keras.saving.register_keras_serializable("tfbigbatch")


class _OfKeras(tf_keras.optimizers.schedules.LearningRateSchedule):
    keras_schedules = keras_schedules
    ops = tf


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
