"""The face of the optimizers for `tf_keras` (Keras 2): variables, distribution, serialisation."""

import tensorflow as tf
import tf_keras

from tfbigbatch.optimizers import exclusions
from tfbigbatch.optimizers.lamb import LAMBMixin
from tfbigbatch.optimizers.lars import LARSMixin


class LayerwiseOptimizer(tf_keras.optimizers.Optimizer):
    """Holds float32 slots for each variable and applies a mixin's `updated` to it."""

    def __init__(
        self,
        learning_rate,
        *,
        weight_decay=0.0,
        exclude_from_weight_decay=None,
        exclude_from_layer_adaptation=None,
        name,
        **kwargs,
    ):
        if weight_decay is None:
            weight_decay = 0.0
        if weight_decay < 0.0:
            raise ValueError(f"{name}: weight_decay={weight_decay} is negative; expected 0 or more.")
        # The base class would apply the decay by itself, outside the trust ratio.
        super().__init__(name=name, weight_decay=None, **kwargs)
        self.weight_decay = weight_decay
        self._learning_rate = self._build_learning_rate(learning_rate)
        self._decay_patterns = exclusions.check_patterns("exclude_from_weight_decay", exclude_from_weight_decay)
        self._adaptation_patterns = exclusions.check_patterns(
            "exclude_from_layer_adaptation", exclude_from_layer_adaptation
        )

    def build(self, var_list):
        """Makes the slots; matches the exclusion patterns against the variables' paths, once."""
        super().build(var_list)
        if getattr(self, "_built", False):
            return
        self._slots = [[self._add_slot(variable, name) for name in self.slot_names] for variable in var_list]
        paths = [variable.name.split(":")[0] for variable in var_list]
        self._decays = [
            # The base class keeps what its own method exclude_from_weight_decay() was told.
            self._use_weight_decay(variable) and not exclusions.is_excluded(path, self._decay_patterns)
            for variable, path in zip(var_list, paths)
        ]
        # None means as weight decay; an empty list means that nothing is left out.
        self._adapts = self._decays
        if self._adaptation_patterns is not None:
            self._adapts = [not exclusions.is_excluded(path, self._adaptation_patterns) for path in paths]
        self._built = True

    def _add_slot(self, variable, slot_name):
        # float32 whatever the variable's dtype: bfloat16(0.999) is 1.0, and moments kept in it stop.
        with tf.distribute.get_strategy().extended.colocate_vars_with(variable):
            slot = tf.Variable(
                tf.zeros(variable.shape, tf.float32), name=f"{slot_name}/{variable._shared_name}", trainable=False
            )
        self._variables.append(slot)
        return slot

    def _apply_weight_decay(self, variables):
        """Does nothing: the decay is part of the update."""

    def update_step(self, gradient, variable):
        index = self._index_dict[self._var_key(variable)]
        slots = self._slots[index]
        if isinstance(gradient, tf.IndexedSlices):
            # The norms are of the whole layer, and the moments of untouched rows decay as well.
            gradient = tf.convert_to_tensor(gradient)
        weight, new_slots = self.updated(
            tf.cast(gradient, tf.float32),
            tf.cast(variable, tf.float32),
            [tf.convert_to_tensor(slot) for slot in slots],
            learning_rate=tf.cast(self.learning_rate, tf.float32),
            step=tf.cast(self.iterations + 1, tf.float32),
            weight_decay=self.weight_decay if self._decays[index] else 0.0,
            adapt=self._adapts[index],
        )
        for slot, value in zip(slots, new_slots):
            slot.assign(value)
        variable.assign(tf.cast(weight, variable.dtype))

    def get_config(self):
        config = super().get_config()
        config.update(
            learning_rate=self._serialize_hyperparameter(self._learning_rate),
            weight_decay=self.weight_decay,
            exclude_from_weight_decay=self._decay_patterns,
            exclude_from_layer_adaptation=self._adaptation_patterns,
        )
        return config


@tf_keras.saving.register_keras_serializable(package="tfbigbatch")
class LARS(LARSMixin, LayerwiseOptimizer):
    __doc__ = LARSMixin.__doc__


@tf_keras.saving.register_keras_serializable(package="tfbigbatch")
class LAMB(LAMBMixin, LayerwiseOptimizer):
    __doc__ = LAMBMixin.__doc__
