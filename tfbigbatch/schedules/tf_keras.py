"""Our schedules for tf_keras (Keras 2)."""

import tf_keras

from tfbigbatch.schedules.adjustable_warmup import GovernedSchedule
from tfbigbatch.schedules.phased import PhasedSchedules
from tfbigbatch.schedules.warmup import WarmupSchedule

keras_schedules = tf_keras.optimizers.schedules


@tf_keras.saving.register_keras_serializable(package="tfbigbatch")
class GradualWarmup(WarmupSchedule, keras_schedules.LearningRateSchedule):
    __doc__ = WarmupSchedule.__doc__
    keras_schedules = keras_schedules


@tf_keras.saving.register_keras_serializable(package="tfbigbatch")
class GovernedWarmup(GovernedSchedule, keras_schedules.LearningRateSchedule):
    __doc__ = GovernedSchedule.__doc__
    keras_schedules = keras_schedules


@tf_keras.saving.register_keras_serializable(package="tfbigbatch")
class PhasedSchedule(PhasedSchedules, keras_schedules.LearningRateSchedule):
    __doc__ = PhasedSchedules.__doc__
    keras_schedules = keras_schedules
