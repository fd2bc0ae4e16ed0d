"""The schedules as classes of tf_keras (Keras 2); `warmup`, `adjustable_warmup` and `phased` compute them."""

import tensorflow as tf
import tf_keras

from tfbigbatch.schedules.adjustable_warmup import AdjustableSchedule
from tfbigbatch.schedules.phased import PhasedSchedules, RescaledSchedules
from tfbigbatch.schedules.warmup import WarmupSchedule

keras_schedules = tf_keras.optimizers.schedules
_registered = tf_keras.saving.register_keras_serializable


@_registered("tfbigbatch")
class GradualWarmup(WarmupSchedule, tf_keras.optimizers.schedules.LearningRateSchedule):
    keras_schedules = keras_schedules
    ops = tf


@_registered("tfbigbatch")
class AdjustableWarmup(AdjustableSchedule, tf_keras.optimizers.schedules.LearningRateSchedule):
    keras_schedules = keras_schedules
    ops = tf


@_registered("tfbigbatch")
class PhasedSchedule(PhasedSchedules, tf_keras.optimizers.schedules.LearningRateSchedule):
    keras_schedules = keras_schedules
    ops = tf


@_registered("tfbigbatch")
class RescaledSchedule(RescaledSchedules, tf_keras.optimizers.schedules.LearningRateSchedule):
    keras_schedules = keras_schedules
    ops = tf
