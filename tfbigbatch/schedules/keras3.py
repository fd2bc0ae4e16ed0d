"""Our schedules for Keras 3 on TensorFlow."""

import keras

from tfbigbatch.schedules.adjustable_warmup import GovernedSchedule
from tfbigbatch.schedules.phased import PhasedSchedules
from tfbigbatch.schedules.warmup import WarmupSchedule

keras_schedules = keras.optimizers.schedules


@keras.saving.register_keras_serializable(package="tfbigbatch")
class GradualWarmup(WarmupSchedule, keras_schedules.LearningRateSchedule):
    __doc__ = WarmupSchedule.__doc__
    keras_schedules = keras_schedules


@keras.saving.register_keras_serializable(package="tfbigbatch")
class GovernedWarmup(GovernedSchedule, keras_schedules.LearningRateSchedule):
    __doc__ = GovernedSchedule.__doc__
    keras_schedules = keras_schedules


@keras.saving.register_keras_serializable(package="tfbigbatch")
class PhasedSchedule(PhasedSchedules, keras_schedules.LearningRateSchedule):
    __doc__ = PhasedSchedules.__doc__
    keras_schedules = keras_schedules
