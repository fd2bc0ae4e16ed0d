"""What other libraries call an argument of an optimizer, for the error of one that is unknown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tfbigbatch.errors import InputError, nearest

# By our name of the argument.
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
