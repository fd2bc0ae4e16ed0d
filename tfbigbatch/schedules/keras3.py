"""The schedules as classes of Keras 3; `warmup`, `adjustable_warmup` and `phased` compute them."""

import keras

from tfbigbatch.schedules.adjustable_warmup import AdjustableSchedule
from tfbigbatch.schedules.phased import PhasedSchedules, RescaledSchedules
from tfbigbatch.schedules.warmup import WarmupSchedule

keras_schedules = keras.optimizers.schedules
_registered = keras.saving.register_keras_serializable


@_registered("tfbigbatch")
class GradualWarmup(WarmupSchedule, keras.optimizers.schedules.LearningRateSchedule):
    keras_schedules = keras_schedules
    ops = keras.ops


@_registered("tfbigbatch")
class AdjustableWarmup(AdjustableSchedule, keras.optimizers.schedules.LearningRateSchedule):
    keras_schedules = keras_schedules
    ops = keras.ops


@_registered("tfbigbatch")
class PhasedSchedule(PhasedSchedules, keras.optimizers.schedules.LearningRateSchedule):
    keras_schedules = keras_schedules
    ops = keras.ops


@_registered("tfbigbatch")
class RescaledSchedule(RescaledSchedules, keras.optimizers.schedules.LearningRateSchedule):
    keras_schedules = keras_schedules
    ops = keras.ops
