"""The governed warm-up for tf_keras (Keras 2)."""

import tf_keras

from tfbigbatch.schedules.governed import GovernedMixin


@tf_keras.saving.register_keras_serializable(package="tfbigbatch")
class GovernedWarmup(GovernedMixin, tf_keras.optimizers.schedules.LearningRateSchedule):
    __doc__ = GovernedMixin.__doc__

    keras_schedules = tf_keras.optimizers.schedules
    keras_schedule = keras_schedules.LearningRateSchedule
