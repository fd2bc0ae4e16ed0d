"""What LARS and LAMB share, whatever the Keras: options, exclusions and state."""

import typing

import tensorflow as tf

from tfbigbatch.optimizers import exclusions
from tfbigbatch.optimizers.layer_update import LayerUpdate

# What Keras prints for an optimizer that it does not know, and so the error of the wrong Keras.
DESCRIPTION = (
    "tfbigbatch.optimizers.{face}.{0}; a model of the other Keras takes tfbigbatch.optimizers.{other}.{0} "
    "(tfbigbatch.{0} is that of the tf.keras in use, which TF_USE_LEGACY_KERAS=1 makes tf_keras)"
)
WRONG_FACE = (
    "{0} was given {variable!r}, a variable of the other Keras: use tfbigbatch.optimizers.{other} for this model."
)

_SHARED_ARGUMENTS = """exclude_from_weight_decay: regular expressions, found in the variables' paths; or
        'norm_and_bias', the usual recipe. None: nothing is excluded.
      exclude_from_layer_adaptation: likewise; None means as weight decay, [] means none. A pattern
        that matches nothing warns when the variables are known.
      accumulation_steps: micro-batches to an update, for anyone's `fit`. The mean of their gradients
        is applied at the last; every micro-batch costs a reduction over the replicas
        (`optimizers.accumulate_gradients` needs one an update). `iterations` counts updates.
      layer_statistics: keep each layer's trust ratio and norms for `layer_statistics()`.
      jit_compile: compile each layer's update with XLA; None means where a GPU is visible.
      clipnorm, clipvalue, global_clipnorm, use_ema, ema_momentum, ema_overwrite_frequency, name:
        Keras' own. Clipping follows the sum over micro-batches and replicas."""


class LayerStatistics(typing.NamedTuple):
    """One layer's last update: its trust ratio (1 where excluded), |w| before it, and |change of w|."""

    trust_ratio: float
    weight_norm: float
    update_norm: float


class Layerwise(LayerUpdate):
    """Mixed into a Keras optimizer by a face, which provides the variables.

    The face calls `_set_options` and `_build_layers`, and hands the reduced gradients to
    `_update_all`; it provides `face` and `other_face`, `_new_state(variable, name)`, and what
    `LayerUpdate` asks for.
    """

    # ---- Options ------------------------------------------------------------------------------

    def _set_options(
        self,
        *,
        learning_rate,
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
        for argument, value in (("learning_rate", learning_rate), ("weight_decay", weight_decay)):
            if not self._is_schedule(value) and "LearningRateSchedule" in [cls.__name__ for cls in type(value).__mro__]:
                raise ValueError(
                    f"{label}: {argument} is a schedule of the other Keras, {type(value).__module__}."
                    f"{type(value).__name__}; take one of the Keras that the optimizer is for."
                )
        self.weight_decay = weight_decay
        self.accumulation_steps = accumulation_steps
        self._records_statistics = layer_statistics
        self._jit_compile_asked = jit_compile
        self._holds_foreign_state = False
        self._make_compiled_update()
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

    def __str__(self):
        # Keras' error for an optimizer that it does not know prints the object: this is what to do then.
        return DESCRIPTION.format(type(self).__name__, face=self.face, other=self.other_face)

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
            raise ValueError(f"{label} keeps no statistics: make it with {label}(..., layer_statistics=True).")
        if getattr(self, "_statistics", None) is None:
            raise ValueError(f"{label} has made no update yet: there are no statistics to read.")
        rows = [values.numpy().tolist() for values in self._statistics]
        return {path: LayerStatistics(*row) for path, row in zip(self._paths, rows)}

    def _trackable_children(self, save_type="checkpoint", **kwargs):
        if save_type == "checkpoint":
            return {"named_state": self.named_state}
        return super()._trackable_children(save_type, **kwargs)

    def _lookup_dependency(self, name, *args, **kwargs):
        """What a checkpoint's entry is here; Keras' own optimizers keep their state under another name than ours."""
        if name in ("_variables", "named_state"):
            self._holds_foreign_state = name == "_variables"
        return super()._lookup_dependency(name, *args, **kwargs)

    def _check_restored(self):
        if self._holds_foreign_state:
            raise ValueError(
                f"The checkpoint that was restored into this {type(self).__name__} holds the state of another "
                "optimizer: nothing of it was taken. To start afresh, leave the optimizer out: "
                "tf.train.Checkpoint(model=model)."
            )

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
            raise ValueError(
                f"The saved state is not that of this {type(self).__name__}: {len(saved)} variables of shapes "
                f"{_few(saved)} were saved, {len(own)} of shapes {_few(own)} are expected. Make the optimizer as it "
                "was (same options, same model), or load the model with compile=False and compile it anew."
            )


def with_shared_arguments(docstring):
    """The docstring of an optimizer with the arguments that all of them take."""
    return docstring.replace("{shared}", _SHARED_ARGUMENTS)


def _few(items, count=6):
    return ", ".join(map(str, items[:count])) + (", ..." if len(items) > count else "")
