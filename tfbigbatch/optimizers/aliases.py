"""What other libraries call an argument of an optimizer, for the error of one that is unknown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfbigbatch.errors import InputError, nearest

# What other libraries call an argument, or a field of a group.
_ELSEWHERE = {
    "learning_rate": ("lr", "rate", "step_size", "learning_rate_schedule"),
    "beta_1": ("beta1", "b1"),
    "beta_2": ("beta2", "b2"),
    "epsilon": ("eps",),
    "weight_decay": ("weight_decay_rate", "wd", "decay_rate", "l2"),
    "eeta": ("eta", "trust_coefficient", "trust_coef"),
    "nesterov": ("use_nesterov",),
    "newton_schulz.steps": ("ns_steps", "num_ns_steps"),
    "newton_schulz.coefficients": ("ns_coeffs", "ns_coefficients"),
    "graft": ("graft_type", "grafting"),
    "root.exponent": ("exponent_override",),
    "root.epsilon": ("matrix_eps", "ridge_epsilon"),
    "root.every": ("preconditioning_compute_steps", "precondition_frequency"),
    "graft.steps": ("start_preconditioning_step",),
    "vectors.learning_rate_ratio": ("adam_lr_ratio", "adam_learning_rate_ratio"),
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
_LONG_SIDES = (
    "Shampoo does not precondition a variable with a side over 8,192, unless a pattern of treatments asks for it, as "
    "treatments={'embedding': 'matrix'}; 'vector' leaves out others."
)
_ADVICE = {
    "accumulation_steps": "LARS, LAMB, Muon, Shampoo and tfbigbatch.AdamW take it.",
    "betas": "Write beta_1 and beta_2.",
    "classic_momentum": "Write form='tfm' for True and form='momentum_ratio' for False.",
    "decay": "Give a schedule as learning_rate; the decay of the weights is weight_decay.",
    "nesterov": "LARS, Muon and 'momentum' take it; Shampoo's momentum is always Nesterov's.",
    **dict.fromkeys(("no_preconditioning_for_layers_with_dim_gt", "max_preconditioner_dim"), _LONG_SIDES),
}


def unknown(label: str, name: str, value: Any, known: Mapping[str, Any]) -> InputError:
    """The error for an argument that an optimizer does not take, with the name that was likely meant.

    Args:
      label: at the beginning of the message.
      name, value: of the argument.
      known: the arguments that there are, each with its default or declaration.
    """
    ours = _OUR_NAMES.get(name, name)
    group, _, field = ours.rpartition(".")
    groups = [each for each, what in known.items() if group in ("", each) and field in _fields_of(what)]
    if name in _ADVICE or (ours in _ADVICE and ours not in known):
        hint = _ADVICE.get(name) or _ADVICE[ours]
    elif field in known:
        hint = f"Did you mean {field!r}? If so, write {field}={value!r}."
    elif groups:
        hint = f"It is a field: write {' or '.join(f'{each}={ {field: value} }' for each in groups)}."
    else:
        hint = nearest(name, known)
    return InputError(f"{label} takes no argument {name!r}. {hint}")


def _fields_of(argument: Any) -> Mapping[str, Any]:
    """The fields of an argument that is a group of them, by its declaration or its default."""
    return getattr(getattr(argument, "default", argument), "hyperparameters", {})
