"""Constructor arguments of the optimizers: defaults, checks and other libraries' names, without TensorFlow."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypedDict

from tfbigbatch.errors import InputError, nearest
from tfbigbatch.optimizers import exclusions
from tfbigbatch.optimizers.accumulation_schedule import AccumulationSchedule
from tfbigbatch.utils import arguments as checks

LARS_FORMS = ("paper", "tfm", "momentum_ratio")
MUON_SCALES = ("rms", "spectral", "trust_ratio")
SHAMPOO_GRAFTS = ("sgd", "rmsprop", "lars", "lamb")
NEWTON_SCHULZ_COEFFICIENTS = ("quintic", "polar_express")
# How a variable is read as matrices; see `matrices`. 'groups:N' and 'rows:N' as well.
TREATMENTS = ("matrix", "vector", "gates", "heads", "depthwise")
# The axes of the rows and of the columns; all others are matrices of their own.
_AXES = re.compile(r"in:(\d+(?:,\d+)*) out:(\d+(?:,\d+)*)")

# (label, name, value) -> the value to use; raises InputError where it cannot be used.
Check = Callable[[str, str, Any], Any]


class Argument(NamedTuple):
    """One argument of a constructor."""

    default: Any
    check: Check


def _value_of(value: Any) -> Any:
    """The present value of a scalar tensor or variable of TensorFlow or Keras; anything else as it is."""
    if hasattr(value, "numpy") and getattr(value, "shape", None) == ():
        return value.numpy()
    return value


def _number(**bounds: Any) -> Check:
    return lambda label, name, value: checks.number(name, _value_of(value), owner=label, **bounds)


def _integer(**bounds: Any) -> Check:
    return lambda label, name, value: checks.integer(name, _value_of(value), owner=label, **bounds)


def _optional(check: Check) -> Check:
    return lambda label, name, value: None if value is None else check(label, name, value)


def _changing(label: str, name: str, value: Any) -> Any:
    """A number of 0 or more, or what gives one at each step: a schedule, or a callable without arguments."""
    is_variable = hasattr(value, "assign")
    return value if callable(value) and not is_variable else _NOT_NEGATIVE(label, name, value)


def _weight_decay(label: str, name: str, value: Any) -> Any:
    return 0.0 if value is None else _changing(label, name, value)


def _accumulation(label: str, name: str, value: Any) -> Any:
    """A whole number of micro-batches, or a schedule of them, also by its config as `get_config` gives it."""
    if isinstance(value, AccumulationSchedule):
        return value
    if isinstance(value, Mapping) and set(value) == {"micro_batches", "steps"}:
        return AccumulationSchedule(**value)
    expected = "a whole number of micro-batches of 1 or more, or BatchRamp.accumulation(...)"
    return checks.integer(name, _value_of(value), least=1, expected=expected, owner=label)


def _flag(label: str, name: str, value: Any) -> bool:
    return checks.flag(name, _value_of(value), owner=label)


def one_of(*known: str) -> Check:
    """A check for one of a few words."""
    return lambda label, name, value: checks.one_of(name, value, known, owner=label)


def _bounds(label: str, name: str, value: Any) -> tuple[float | None, float | None] | None:
    """(low, high), either of them None; or None."""
    if value is None:
        return None
    try:
        low, high = (None if each is None or each == float("inf") else _NOT_NEGATIVE("", name, each) for each in value)
        right = low is None or high is None or low <= high
    except (TypeError, ValueError):
        right = False
    if not right:
        raise InputError(
            f"{label}: {name}={value!r} is not a pair of bounds; expected (low, high) with 0 <= low <= high, either of "
            "them None for no bound."
        )
    return low, high


def _patterns(label: str, name: str, value: Any) -> Any:
    return exclusions.check_patterns(name, value)


def treatment_axes(treatment: str) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The axes of the rows and of the columns in a treatment such as 'in:1 out:0,2'; None in another one."""
    found = _AXES.fullmatch(treatment)
    if found is None:
        return None
    rows, columns = (tuple(map(int, axes.split(","))) for axes in found.groups())
    return rows, columns


def _is_treatment(treatment: Any) -> bool:
    if treatment in TREATMENTS or re.fullmatch(r"(groups|rows):[1-9]\d*", str(treatment)):
        return True
    axes = treatment_axes(str(treatment))
    return axes is not None and len({*axes[0], *axes[1]}) == len(axes[0]) + len(axes[1])


def _treatments(label: str, name: str, value: Any) -> tuple[tuple[str, str], ...]:
    """Pairs (pattern, treatment), from pairs or a dictionary."""
    if value is None:
        return ()
    pairs = list(value.items()) if isinstance(value, Mapping) else value
    expected = "expected pairs (regular expression, treatment), as [('softmax', 'vector')], or a dictionary"
    if isinstance(pairs, str) or not isinstance(pairs, Iterable):
        raise InputError(f"{label}: {name}={value!r}; {expected}.")
    checked = []
    for pair in pairs:
        if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
            raise InputError(f"{label}: {name} holds {pair!r}; {expected}.")
        pattern, treatment = pair
        exclusions.check_patterns(f"{label}: {name}", [pattern])
        if not _is_treatment(treatment):
            raise InputError(
                f"{label}: {name}: the treatment {treatment!r} of {pattern!r} is unknown; expected "
                f"{', '.join(map(repr, TREATMENTS))}, 'groups:N' (of outputs), 'rows:N' (axes in the rows) or "
                "'in:AXES out:AXES' (axes of the rows and of the columns, each once, as 'in:1 out:0,2'). "
                f"{nearest(str(treatment), TREATMENTS)}"
            )
        checked.append((pattern, treatment))
    return tuple(checked)


_NOT_NEGATIVE = _number(least=0.0)
_POSITIVE = _number(above=0.0)
_FRACTION = _number(least=0.0, below=1.0)
_COUNT = _integer(least=1)
_WHOLE = _integer(least=0)

KERAS = {
    # 0 means no clipping, as in Keras.
    "clipnorm": Argument(None, _optional(_NOT_NEGATIVE)),
    "clipvalue": Argument(None, _optional(_NOT_NEGATIVE)),
    "global_clipnorm": Argument(None, _optional(_NOT_NEGATIVE)),
    "use_ema": Argument(False, _flag),
    "ema_momentum": Argument(0.99, _number(least=0.0, most=1.0)),
    "ema_overwrite_frequency": Argument(None, _optional(_COUNT)),
}
LAYERWISE = {
    # As the papers' own code; AdamW keeps Keras' default.
    "exclude_from_weight_decay": Argument("norm_and_bias", _patterns),
    "exclude_from_layer_adaptation": Argument(None, _patterns),
    "accumulation_steps": Argument(1, _accumulation),
    "layer_statistics": Argument(False, _flag),
    "shard_updates": Argument(False, _flag),
    "jit_compile": Argument(None, _optional(_flag)),
    **KERAS,
}


class SharedArguments(TypedDict, total=False):
    """The types of `LAYERWISE` without layer adaptation, for editors and type checkers."""

    exclude_from_weight_decay: Sequence[str] | str | None
    accumulation_steps: int | AccumulationSchedule
    layer_statistics: bool
    shard_updates: bool
    jit_compile: bool | None
    clipnorm: float | None
    clipvalue: float | None
    global_clipnorm: float | None
    use_ema: bool
    ema_momentum: float
    ema_overwrite_frequency: int | None
    # Of Keras 3 alone.
    loss_scale_factor: float | None


class LayerwiseArguments(SharedArguments, total=False):
    """The types of `LAYERWISE`."""

    exclude_from_layer_adaptation: Sequence[str] | str | None


_BETAS = {"beta_1": Argument(0.9, _FRACTION), "beta_2": Argument(0.999, _FRACTION)}

# `optimizers.AdamW`; the registered 'adamw' is Keras' own unless its updates are sharded.
ADAMW = {
    "learning_rate": Argument(0.001, _changing),
    **_BETAS,
    "epsilon": Argument(1e-7, _NOT_NEGATIVE),
    "weight_decay": Argument(0.004, _weight_decay),
    "amsgrad": Argument(False, _flag),
    **{name: each for name, each in LAYERWISE.items() if name != "exclude_from_layer_adaptation"},
    "exclude_from_weight_decay": Argument(None, _patterns),
}
# By registered name, for the Keras of the trainers: tf_keras. `registry` gives Keras' own their
# `exclude_from_weight_decay`.
TABLES: dict[str, dict[str, Argument]] = {
    "lamb": {
        "learning_rate": Argument(0.001, _changing),
        **_BETAS,
        "epsilon": Argument(1e-6, _NOT_NEGATIVE),
        "weight_decay": Argument(0.0, _weight_decay),
        "bias_correction": Argument(True, _flag),
        "trust_ratio_bounds": Argument(None, _bounds),
        "pre_normalize": Argument(False, _flag),
        **LAYERWISE,
    },
    "lars": {
        "learning_rate": Argument(0.01, _changing),
        "momentum": Argument(0.9, _FRACTION),
        "weight_decay": Argument(0.0, _weight_decay),
        "eeta": Argument(0.001, _POSITIVE),
        "epsilon": Argument(0.0, _NOT_NEGATIVE),
        "nesterov": Argument(False, _flag),
        "form": Argument("paper", one_of(*LARS_FORMS)),
        **LAYERWISE,
    },
    "muon": {
        "learning_rate": Argument(0.02, _changing),
        "momentum": Argument(0.95, _FRACTION),
        "nesterov": Argument(True, _flag),
        "newton_schulz_steps": Argument(5, _COUNT),
        "coefficients": Argument("quintic", one_of(*NEWTON_SCHULZ_COEFFICIENTS)),
        "scale": Argument("rms", one_of(*MUON_SCALES)),
        "normuon_beta": Argument(None, _optional(_FRACTION)),
        "matrices": Argument((), _treatments),
        "vectors": Argument("adam", one_of("adam", "lamb")),
        "vector_learning_rate_ratio": Argument(1.0, _POSITIVE),
        "beta_1": Argument(0.9, _FRACTION),
        "beta_2": Argument(0.99, _FRACTION),
        "epsilon": Argument(1e-8, _NOT_NEGATIVE),
        "weight_decay": Argument(0.0, _weight_decay),
        "product_dtype": Argument("float32", one_of("float32", "bfloat16")),
        "share_work": Argument(None, _optional(_flag)),
        **LAYERWISE,
    },
    "shampoo": {
        "learning_rate": Argument(0.1, _changing),
        "beta_1": Argument(0.9, _FRACTION),
        "beta_2": Argument(0.99, _FRACTION),
        "nesterov": Argument(True, _flag),
        "graft": Argument("sgd", one_of(*SHAMPOO_GRAFTS)),
        "eeta": Argument(0.001, _POSITIVE),
        "epsilon": Argument(1e-8, _NOT_NEGATIVE),
        "weight_decay": Argument(0.0, _weight_decay),
        "block_size": Argument(128, _COUNT),
        "largest_side": Argument(8192, _optional(_COUNT)),
        "exponent": Argument(4, _COUNT),
        "matrix_epsilon": Argument(1e-5, _POSITIVE),
        "root_method": Argument(None, _optional(one_of("newton", "eigh"))),
        "root_every": Argument(1, _COUNT),
        "graft_steps": Argument(5, _WHOLE),
        "matrices": Argument((), _treatments),
        "vectors": Argument("shampoo", one_of("shampoo", "graft", "adam")),
        "vector_learning_rate_ratio": Argument(1.0, _POSITIVE),
        "share_work": Argument(None, _optional(_flag)),
        **LAYERWISE,
    },
    "adamw": {
        "learning_rate": Argument(0.001, _changing),
        "weight_decay": Argument(0.004, _optional(_NOT_NEGATIVE)),
        **_BETAS,
        "epsilon": Argument(1e-7, _NOT_NEGATIVE),
        "amsgrad": Argument(False, _flag),
        "shard_updates": Argument(False, _flag),
        "jit_compile": Argument(True, _flag),
        "exclude_from_weight_decay": Argument(None, _patterns),
        **KERAS,
    },
    "momentum": {
        "learning_rate": Argument(0.01, _changing),
        "momentum": Argument(0.9, _number(least=0.0, most=1.0)),
        "nesterov": Argument(False, _flag),
        "weight_decay": Argument(None, _optional(_NOT_NEGATIVE)),
        "jit_compile": Argument(True, _flag),
        "exclude_from_weight_decay": Argument(None, _patterns),
        **KERAS,
    },
}

ADASUM = {
    "combine": Argument(None, _optional(one_of("gradients", "updates"))),
    "group_size": Argument(1, _COUNT),
}
LOCAL_STEPS = {
    "every": Argument(1, _COUNT),
    "outer": Argument("average", one_of("average", "nesterov", "adasum")),
    "outer_learning_rate": Argument(None, _optional(_POSITIVE)),
    "outer_momentum": Argument(None, _optional(_FRACTION)),
    "delay": Argument(0, _integer(least=0, most=1)),
    "group_size": Argument(1, _COUNT),
    "data_parallel_steps": Argument(0, _WHOLE),
}
# What the constructors of Keras 3 take beside the tables.
KERAS3 = {"loss_scale_factor": Argument(None, _optional(_POSITIVE))}

# What other libraries, and earlier versions of these, call an argument.
_ELSEWHERE = {
    "learning_rate": ("lr", "rate", "step_size", "learning_rate_schedule"),
    "beta_1": ("beta1", "b1"),
    "beta_2": ("beta2", "b2"),
    "epsilon": ("eps",),
    "weight_decay": ("weight_decay_rate", "wd", "decay_rate", "l2"),
    "eeta": ("eta", "trust_coefficient", "trust_coef"),
    "nesterov": ("use_nesterov",),
    "newton_schulz_steps": ("ns_steps", "num_ns_steps"),
    "coefficients": ("ns_coeffs", "ns_coefficients"),
    "graft": ("graft_type", "grafting"),
    "largest_side": ("no_preconditioning_for_layers_with_dim_gt", "max_preconditioner_dim"),
    "exponent": ("exponent_override",),
    "matrix_epsilon": ("matrix_eps", "ridge_epsilon"),
    "root_every": ("preconditioning_compute_steps", "precondition_frequency"),
    "graft_steps": ("start_preconditioning_step",),
    "vector_learning_rate_ratio": ("adam_lr_ratio", "adam_learning_rate_ratio"),
    "bias_correction": ("use_bias_correction", "debias"),
    "trust_ratio_bounds": ("trust_clip", "min_trust", "max_trust", "lower_bound", "upper_bound"),
    "exclude_from_weight_decay": ("skip_list", "no_decay", "weight_decay_mask", "exclude_from_decay"),
    "exclude_from_layer_adaptation": ("exclude_from_trust_ratio", "trust_ratio_mask"),
    "accumulation_steps": ("gradient_accumulation_steps", "accumulate_steps", "grad_accum_steps"),
    "clipnorm": ("clip_norm",),
    "clipvalue": ("clip_value",),
    "global_clipnorm": ("global_clip_norm", "max_grad_norm", "gradient_clip_norm", "clip_by_global_norm"),
    "ema_momentum": ("ema_decay", "average_decay"),
}
_OUR_NAMES = {theirs: ours for ours, names in _ELSEWHERE.items() for theirs in names}
_ADVICE = {
    "accumulation_steps": "LARS, LAMB, Muon, Shampoo and tfbigbatch.optimizers.AdamW take it.",
    "betas": "Write beta_1 and beta_2.",
    "classic_momentum": "Write form='tfm' for True and form='momentum_ratio' for False.",
    "decay": "Give a schedule as learning_rate; the decay of the weights is weight_decay.",
}


def unknown(label: str, name: str, value: Any, known: Iterable[str]) -> InputError:
    """The error for an argument that an optimizer does not take, with the name that was likely meant."""
    known = list(known)
    hint = nearest(name, known)
    if _OUR_NAMES.get(name) in known:
        hint = f"Did you mean {_OUR_NAMES[name]!r}? If so, write {_OUR_NAMES[name]}={value!r}."
    elif name in _ADVICE:
        hint = _ADVICE[name]
    return InputError(f"{label} takes no argument {name!r}. {hint}")
