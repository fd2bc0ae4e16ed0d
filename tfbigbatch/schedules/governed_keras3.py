"""The governed warm-up for Keras 3."""

import keras

from tfbigbatch.schedules.governed import GovernedMixin


@keras.saving.register_keras_serializable(package="tfbigbatch")
class GovernedWarmup(GovernedMixin, keras.optimizers.schedules.LearningRateSchedule):
    __doc__ = GovernedMixin.__doc__

    keras_schedules = keras.optimizers.schedules
    keras_schedule = keras_schedules.LearningRateSchedule
