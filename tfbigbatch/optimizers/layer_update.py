"""The order of one update, whatever the Keras: micro-batches, clipping, and each layer where it lives.

Gradients come summed over the replicas (by the face); they are added over the micro-batches,
clipped, and each layer is updated on its device. The same gradient is clipped on every replica, so
that 1 and N replicas end with the same weights.
"""

import typing

import tensorflow as tf
from tensorflow.python.distribute import distribute_utils

from tfbigbatch.optimizers import rules

# Layers of 256 KB and more are updated in place one after the other on a CPU: one temporary at a time.
_LARGE = 2**16


class _Step(typing.NamedTuple):
    """The scalars of one update, and the last in-place operation on each device."""

    learning_rate: tf.Tensor
    number: tf.Tensor
    weight_decay: object
    kernel_scalars: object
    last_operation: dict


class LayerUpdate:
    """The part of a layer-wise optimizer that updates; `Layerwise` adds its options and state.

    A face provides `_end_update()`, `_skip_update()`, `_is_schedule(value)` and
    `_update_averages(variables)`. LARSMixin and LAMBMixin provide `slot_names`, `_updated` and, for
    CPUs, `_update_in_place` with `_has_kernels`.
    """

    slot_names = ()
    pre_normalize = False
    # Whether each replica's gradients are its own, and so is what they are clipped to; see `adasum`.
    replicas_differ = False

    def _has_kernels(self):
        """True where `_update_in_place` covers the options."""
        return False

    def _kernel_scalars(self, number):
        """What `_update_in_place` needs of update `number` for all layers alike."""
        return None

    # AutoGraph has nothing to rewrite here, and would take a third of the time of a first step to find out.
    @tf.autograph.experimental.do_not_convert
    def _update_all(self, strategy, gradients, variables):
        """Takes the gradients of one batch, dense and summed over replicas, in cross-replica context."""
        self._check_restored()
        if self.accumulation_steps == 1:
            self._update_layers(strategy, variables, gradients, self._layer_update)
            return
        accumulators = [self._accumulators[self._layer_index(variable)] for variable in variables]
        for accumulator, gradient in zip(accumulators, gradients):
            strategy.extended.update(accumulator, _add, args=(gradient,), group=False)
        # The condition lies inside the merged call of all replicas: around it, it would not be allowed.
        tf.cond(
            self._micro_steps.assign_add(1) >= self.accumulation_steps,
            lambda: self._update_from(strategy, accumulators, variables),
            self._skip_update,
        )

    def _update_from(self, strategy, accumulators, variables):
        self._update_layers(strategy, variables, accumulators, self._layer_update_from_accumulator)
        self._micro_steps.assign(tf.zeros_like(self._micro_steps))

    def _update_layers(self, strategy, variables, gradients, update):
        share = 1.0 / self.accumulation_steps
        of_replicas = list(zip(*(strategy.experimental_local_results(each) for each in gradients)))
        factor = self._factor(of_replicas[0], share)
        if factor is not None and self.replicas_differ:
            others = [self._factor(each, share) for each in of_replicas[1:]]
            factor = distribute_utils.regroup((factor, *others))
        step = self._step()
        for variable, gradient in zip(variables, gradients):

            @tf.autograph.experimental.do_not_convert
            def run(variable, gradient, factor):
                update(variable, gradient, step, factor)

            strategy.extended.update(variable, run, args=(gradient, factor), group=False)
        self._update_averages(variables)
        self._end_update()

    def _layer_update_from_accumulator(self, variable, accumulator, step, factor):
        self._layer_update(variable, accumulator / self.accumulation_steps, step, factor)
        accumulator.assign(tf.zeros(accumulator.shape, accumulator.dtype))

    def _step(self):
        iterations = tf.convert_to_tensor(self.iterations)
        decay = self.weight_decay
        if callable(decay):
            decay = tf.cast(decay(iterations) if self._is_schedule(decay) else decay(), tf.float32)
        number = tf.cast(iterations + 1, tf.float32)
        return _Step(
            learning_rate=tf.cast(tf.convert_to_tensor(self.learning_rate), tf.float32),
            number=number,
            weight_decay=decay,
            kernel_scalars=self._kernel_scalars(number),
            last_operation={},
        )

    def _factor(self, gradients, share):
        """What all gradients are multiplied by: global clipping or pre-normalisation; None for neither."""
        if not self.pre_normalize and not self.global_clipnorm:
            return None
        length = share * tf.linalg.global_norm([tf.cast(gradient, tf.float32) for gradient in gradients])
        if self.pre_normalize:
            return tf.where(length > 0.0, 1.0 / length, 1.0)
        # A gradient that is not finite makes the whole update so, and is seen, rather than scaled to zero.
        return self.global_clipnorm / tf.maximum(length, self.global_clipnorm) + (length - length)

    def _layer_update(self, variable, gradient, step, factor):
        """Updates one replica's copy of a layer, on its device."""
        if self.jit_compile:
            self._compiled_update(variable, gradient, factor, self._layer_index(variable))
        else:
            self._update_layer(variable, gradient, step, factor)

    def _make_compiled_update(self):
        # `index` is a Python number: it makes a trace of each layer, also of two that are alike in shape.
        @tf.function(jit_compile=True, autograph=False)
        def compiled(variable, gradient, factor, index):
            self._update_layer(variable, gradient, self._step(), factor)

        # A tf.function as an attribute would be traced anew for a SavedModel, for variables not the model's.
        self._compiled_update = lambda *arguments: compiled(*arguments)

    def _update_layer(self, variable, gradient, step, factor):
        index = self._layer_index(variable)
        in_place = self._updates_in_place(variable)
        device = variable.device
        large = in_place and (variable.shape.num_elements() or 0) >= _LARGE and not tf.executing_eagerly()
        with tf.control_dependencies([step.last_operation[device]] if large and device in step.last_operation else []):
            gradient = self._clipped(tf.cast(gradient, _wide(variable)), factor)
            options = _scalars(gradient.dtype, step, decay=self._decays[index], adapt=self._adapts[index])
            if in_place:
                operation, row = self._update_in_place(
                    gradient,
                    variable,
                    self._slots[index],
                    scalars=step.kernel_scalars,
                    statistics=self._statistics is not None,
                    **options,
                )
                self._keep_statistics(index, row)
                if large:
                    step.last_operation[device] = operation
            else:
                number = tf.cast(step.number, gradient.dtype)
                self._assign_updated(gradient, variable, index, dict(step=number, **options))

    def _assign_updated(self, gradient, variable, index, options):
        weight = tf.cast(tf.convert_to_tensor(variable), gradient.dtype)
        slots = self._slots[index]
        new_weight, *new_slots, ratio = self._updated(
            gradient, weight, [tf.convert_to_tensor(slot) for slot in slots], **options
        )
        if self._statistics is not None:
            self._keep_statistics(index, (ratio, rules.norm(weight), rules.norm(new_weight - weight)))
        for slot, value in zip(slots, new_slots):
            slot.assign(value)
        variable.assign(tf.cast(new_weight, variable.dtype))

    def _keep_statistics(self, index, row):
        if row is not None:
            self._statistics[index].assign(tf.stack([tf.cast(each, tf.float32) for each in row]))

    def _clipped(self, gradient, factor):
        if factor is not None:
            gradient *= tf.cast(factor, gradient.dtype)
        if self.clipnorm:
            return tf.clip_by_norm(gradient, self.clipnorm)
        if self.clipvalue:
            return tf.clip_by_value(gradient, -self.clipvalue, self.clipvalue)
        return gradient

    def _updates_in_place(self, variable):
        """The one switch between `cpu_kernels` and `rules`: by device, dtype and compiler."""
        return (
            self._has_kernels()
            and variable.dtype == tf.float32
            and tf.DeviceSpec.from_string(variable.device or "").device_type == "CPU"
            and not _compiled_by_xla()
        )

    def _layer_index(self, variable):
        key = self._var_key(variable)
        if key not in self._layer_indices:
            raise ValueError(
                f"{type(self).__name__} was built for other variables than {variable.name}. Call build() with all "
                "variables before the first update, or make one optimizer for each part of the model."
            )
        return self._layer_indices[key]


def _add(accumulator, gradient):
    accumulator.assign_add(tf.cast(gradient, accumulator.dtype))


def _wide(variable):
    """The dtype of the arithmetic: bfloat16(0.999) is 1.0, and moments kept in it would stop."""
    return tf.float64 if variable.dtype == tf.float64 else tf.float32


def _scalars(dtype, step, decay, adapt):
    weight_decay = step.weight_decay if decay else 0.0
    return {
        "learning_rate": tf.cast(step.learning_rate, dtype),
        "weight_decay": tf.cast(weight_decay, dtype) if tf.is_tensor(weight_decay) else weight_decay,
        "adapt": adapt,
    }


def _compiled_by_xla():
    """True while a function with jit_compile=True, or a TPU's, is being traced."""
    graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
    while graph is not None:
        context = graph._get_control_flow_context()
        while context is not None:
            if context.IsXLAContext():
                return True
            context = context.outer_context
        graph = getattr(graph, "outer_graph", None)
    return False
