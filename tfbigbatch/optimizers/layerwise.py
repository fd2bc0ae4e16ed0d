"""What LARS and LAMB share, whatever the Keras: options, state, and the order of one update.

Order of an update: gradients are summed over the replicas (by the face), added over the
micro-batches, clipped, and each layer is updated where its variable lives. The same gradient is
clipped on every replica, so that 1 and N replicas end with the same weights.
"""

import typing

import tensorflow as tf

from tfbigbatch.errors import InputError
from tfbigbatch.optimizers import checkpointing, exclusions, rules

# What Keras prints for an optimizer that it does not know, and so the error of the wrong Keras.
DESCRIPTION = (
    "tfbigbatch.optimizers.{face}.{0}; a model of the other Keras takes tfbigbatch.optimizers.{other}.{0} "
    "(tfbigbatch.{0} is that of the tf.keras in use, which TF_USE_LEGACY_KERAS=1 makes tf_keras)"
)
WRONG_FACE = "{0} was given {variable!r}, a variable of the other Keras: use tfbigbatch.optimizers.{other} for this model."

_SHARED_ARGUMENTS = """exclude_from_weight_decay: regular expressions, found in the variables' paths; or 'norm_and_bias',
        the usual recipe. None: nothing is excluded.
      exclude_from_layer_adaptation: likewise; None means as weight decay, [] means none. A pattern
        that matches nothing warns when the variables are known.
      accumulation_steps: micro-batches to an update, for anyone's `fit`. The mean of their gradients
        is applied at the last; every micro-batch costs a reduction over the replicas
        (`optimizers.accumulate_gradients` needs one an update). `iterations` counts updates.
      layer_statistics: keep each layer's trust ratio and norms for `layer_statistics()`.
      jit_compile: compile each layer's update with XLA; None means where a GPU is visible.
      clipnorm, clipvalue, global_clipnorm, use_ema, ema_momentum, ema_overwrite_frequency, name:
        Keras' own. Clipping follows the sum over micro-batches and replicas."""

# Layers of 256 KB and more are updated in place one after the other on a CPU: one temporary at a time.
_LARGE = 2**16


class LayerStatistics(typing.NamedTuple):
    """One layer's last update: its trust ratio (1 where excluded), |w| before it, and |change of w|."""

    trust_ratio: float
    weight_norm: float
    update_norm: float


class _Step(typing.NamedTuple):
    """The scalars of one update, and the last in-place operation on each device."""

    learning_rate: tf.Tensor
    number: tf.Tensor
    weight_decay: object
    kernel_scalars: object
    last_operation: dict


class Layerwise:
    """Mixed into a Keras optimizer by a face, which provides the variables.

    The face calls `_set_options` and `_build_layers`, and hands the reduced gradients to
    `_update_all`; it provides `_new_state(variable, name)`, `_key(variable)`, `_start_update()`,
    `_end_update()`, `_is_schedule(value)` and `_update_averages(variables)`.

    A subclass (LARSMixin, LAMBMixin) provides `slot_names`, `_updated` and, for CPUs,
    `_update_in_place` with `_has_kernels`.
    """

    slot_names = ()
    pre_normalize = False

    def _has_kernels(self):
        """True where `_update_in_place` covers the options."""
        return False

    def _kernel_scalars(self, number):
        """What `_update_in_place` needs of update `number` for all layers alike."""
        return None

    # ---- Options ------------------------------------------------------------------------------

    def _set_options(
        self,
        *,
        weight_decay,
        exclude_from_weight_decay,
        exclude_from_layer_adaptation,
        accumulation_steps,
        layer_statistics,
        jit_compile,
    ):
        label = type(self).__name__
        if weight_decay is None:
            weight_decay = 0.0
        if not callable(weight_decay):
            weight_decay = float(weight_decay)
            if not weight_decay >= 0.0:
                raise ValueError(f"{label}: weight_decay={weight_decay} is out of range; expected 0 or more.")
        if isinstance(accumulation_steps, bool) or not isinstance(accumulation_steps, int) or accumulation_steps < 1:
            raise ValueError(
                f"{label}: accumulation_steps={accumulation_steps!r} is not a number of micro-batches; expected an "
                "integer of 1 or more."
            )
        self.weight_decay = weight_decay
        self.accumulation_steps = accumulation_steps
        self._records_statistics = layer_statistics
        self._jit_compile_asked = jit_compile
        self._decay_patterns = exclusions.check_patterns("exclude_from_weight_decay", exclude_from_weight_decay)
        self._adaptation_patterns = exclusions.check_patterns(
            "exclude_from_layer_adaptation", exclude_from_layer_adaptation
        )

    def _options(self):
        """What `get_config` adds; learning_rate and weight_decay are the face's to serialise."""
        return {
            "exclude_from_weight_decay": self._decay_patterns,
            "exclude_from_layer_adaptation": self._adaptation_patterns,
            "accumulation_steps": self.accumulation_steps,
            "layer_statistics": self._records_statistics,
            "jit_compile": self._jit_compile_asked,
        }

    # ---- State --------------------------------------------------------------------------------

    def _build_layers(self, variables, paths):
        """Makes the state of each layer, and matches the exclusion patterns against the paths, once."""
        self._paths = list(paths)
        state = {name: [self._new_state(variable, name) for variable in variables] for name in self.slot_names}
        if self.accumulation_steps > 1:
            state["accumulator"] = [self._new_state(variable, "accumulator") for variable in variables]
        self._accumulators = state.get("accumulator")
        self._slots = [[state[name][i] for name in self.slot_names] for i in range(len(variables))]
        self._statistics = None
        if self._records_statistics:
            # Not part of the optimizer's variables: nothing depends on them after the step.
            self._statistics = [
                tf.Variable(tf.zeros([len(LayerStatistics._fields)]), trainable=False) for _ in variables
            ]
        self._decays = [
            # Keras' own method exclude_from_weight_decay() counts too.
            self._use_weight_decay(variable) and not exclusions.is_excluded(path, self._decay_patterns)
            for variable, path in zip(variables, self._paths)
        ]
        # None means as weight decay; an empty list means that nothing is left out.
        self._adapts = self._decays
        if self._adaptation_patterns is not None:
            self._adapts = [not exclusions.is_excluded(path, self._adaptation_patterns) for path in self._paths]
        exclusions.warn_of_idle("exclude_from_weight_decay", self._decay_patterns, self._paths)
        exclusions.warn_of_idle("exclude_from_layer_adaptation", self._adaptation_patterns, self._paths)
        self.named_state.add_layers(self._paths, state)

    def layer_statistics(self):
        """What the last update did to each layer: dictionary of path to LayerStatistics.

        Raises:
          ValueError: the optimizer was made without `layer_statistics=True`, or has not been used.
        """
        label = type(self).__name__
        if not self._records_statistics:
            raise InputError(f"{label} keeps no statistics: make it with {label}(..., layer_statistics=True).")
        if getattr(self, "_statistics", None) is None:
            raise InputError(f"{label} has made no update yet: there are no statistics to read.")
        rows = [values.numpy().tolist() for values in self._statistics]
        return {path: LayerStatistics(*row) for path, row in zip(self._paths, rows)}

    def load_own_variables(self, store):
        """Takes the state that a saved model holds for this optimizer, by position.

        Raises:
          ValueError: the saved variables are not those of this optimizer, by number or shape.
        """
        own = [tuple(variable.shape) for variable in self.variables]
        saved = [tuple(store[str(i)].shape) for i in range(len(store.keys()))]
        if saved == own:
            super().load_own_variables(store)
        elif any(shape for shape in saved):
            raise InputError(
                f"The saved state is not that of this {type(self).__name__}: {len(saved)} variables of shapes "
                f"{_few(saved)} were saved, {len(own)} of shapes {_few(own)} are expected. Make the optimizer as it was "
                "(same options, same model), or load the model with compile=False and compile it anew."
            )

    # ---- One update ---------------------------------------------------------------------------

    def _update_all(self, strategy, gradients, variables):
        """Takes the gradients of one batch, dense and summed over replicas, in cross-replica context."""
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
        factor = self._factor([strategy.experimental_local_results(each)[0] for each in gradients], share)
        step = self._step()
        for variable, gradient in zip(variables, gradients):

            @tf.autograph.experimental.do_not_convert
            def run(variable, gradient):
                update(variable, gradient, step, factor)

            strategy.extended.update(variable, run, args=(gradient,), group=False)
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
            self._layer_update_xla(variable, gradient, factor, self._layer_index(variable))
        else:
            self._update_layer(variable, gradient, step, factor)

    # `index` is a Python number: it makes a trace of each layer, also of two that are alike in shape.
    @tf.function(jit_compile=True)
    def _layer_update_xla(self, variable, gradient, factor, index):
        self._update_layer(variable, gradient, self._step(), factor)

    def _update_layer(self, variable, gradient, step, factor):
        index = self._layer_index(variable)
        in_place = self._updates_in_place(variable)
        device = variable.device
        large = in_place and variable.shape.num_elements() >= _LARGE and not tf.executing_eagerly()
        with tf.control_dependencies([step.last_operation[device]] if large and device in step.last_operation else []):
            gradient = self._clipped(tf.cast(gradient, _wide(variable)), factor)
            options = _scalars(gradient.dtype, step, decay=self._decays[index], adapt=self._adapts[index])
            if in_place:
                operation = self._update_in_place(
                    gradient, variable, self._slots[index], scalars=step.kernel_scalars, **options
                )
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
            row = [ratio, rules.norm(weight), rules.norm(new_weight - weight)]
            self._statistics[index].assign(tf.stack([tf.cast(each, tf.float32) for each in row]))
        for slot, value in zip(slots, new_slots):
            slot.assign(value)
        variable.assign(tf.cast(new_weight, variable.dtype))

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
            and self._statistics is None
            and variable.dtype == tf.float32
            and tf.DeviceSpec.from_string(variable.device or "").device_type == "CPU"
            and not _compiled_by_xla()
        )

    def _layer_index(self, variable):
        key = self._key(variable)
        if key not in self._layer_indices:
            raise InputError(
                f"{type(self).__name__} was built for other variables than {variable.name}. Call build() with all "
                "variables before the first update, or make one optimizer for each part of the model."
            )
        return self._layer_indices[key]


def with_shared_arguments(docstring):
    """The docstring of an optimizer with the arguments that all of them take."""
    return docstring.replace("{shared}", _SHARED_ARGUMENTS)


def _add(accumulator, gradient):
    accumulator.assign_add(tf.cast(gradient, accumulator.dtype))


def _wide(variable):
    """The dtype of the arithmetic: bfloat16(0.999) is 1.0, and moments kept in it would stop."""
    return tf.float64 if variable.dtype == tf.float64 else tf.float32


def _scalars(dtype, step, decay, adapt):
    weight_decay = step.weight_decay if decay else 0.0
    return dict(
        learning_rate=tf.cast(step.learning_rate, dtype),
        weight_decay=tf.cast(weight_decay, dtype) if tf.is_tensor(weight_decay) else weight_decay,
        adapt=adapt,
    )


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


def _few(items, count=6):
    return ", ".join(map(str, items[:count])) + (", ..." if len(items) > count else "")
