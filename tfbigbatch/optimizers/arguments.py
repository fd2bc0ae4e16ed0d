"""Constructor arguments of the optimizers: their defaults and checks, as a table that needs no TensorFlow."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tfbigbatch.optimizers import exclusions

LARS_FORMS = ("paper", "tfm", "momentum_ratio")


class Argument(NamedTuple):
    """One argument of a constructor."""

    default: Any
    # (label, name, value) -> the value to use; raises ValueError where it cannot be used.
    check: Callable[[str, str, Any], Any]


def _shown(label: str, name: str, value: Any) -> str:
    return f"{label}: {name}={value!r}" if label else f"{name}={value!r}"


def _plain(value: Any) -> Any:
    """Python's number for a scalar of NumPy or TensorFlow that has a value; anything else as it is."""
    if getattr(value, "shape", None) == () and hasattr(value, "numpy") and not hasattr(value, "assign"):
        value = value.numpy()
    return value.item() if getattr(value, "shape", None) == () and hasattr(value, "item") else value


def number(low: float, high: float = math.inf, *, above: bool = False, closed: bool = False) -> Any:
    """A check for a number from `low` (above it: `above`) to below `high` (`closed`: up to it)."""

    def check(label: str, name: str, value: Any) -> float:
        what = "a number above" if above else "a number of"
        expected = f"{what} {low:g}" + ("" if above else " or more")
        if high < math.inf:
            expected = f"{low:g} {'<' if above else '<='} {name} {'<=' if closed else '<'} {high:g}"
        plain = _plain(value)
        if isinstance(plain, bool) or not isinstance(plain, numbers.Real):
            raise ValueError(f"{_shown(label, name, value)} is not a number; expected {expected}.")
        plain = float(plain)
        inside = (low < plain if above else low <= plain) and (plain <= high if closed else plain < high)
        if not inside:
            raise ValueError(f"{_shown(label, name, value)} is out of range; expected {expected}.")
        return plain

    return check


def changing(none_is: float | None = None) -> Any:
    """A check for a number of 0 or more, or what gives one at each step: a schedule, callable or variable."""
    fixed = number(0.0)

    def check(label: str, name: str, value: Any) -> Any:
        if value is None and none_is is not None:
            return none_is
        if callable(value) or hasattr(value, "assign"):
            return value
        if isinstance(value, Mapping):
            # A serialised schedule; Keras reads it.
            return value
        return fixed(label, name, value)

    return check


def optional(check: Any) -> Any:
    """The check, with None allowed."""
    return lambda label, name, value: None if value is None else check(label, name, value)


def count(label: str, name: str, value: Any) -> int:
    """A check for an integer of 1 or more."""
    plain = _plain(value)
    if isinstance(plain, bool) or not isinstance(plain, numbers.Integral) or plain < 1:
        raise ValueError(f"{_shown(label, name, value)} is no count; expected an integer of 1 or more.")
    return int(plain)


def flag(label: str, name: str, value: Any) -> bool:
    """A check for True or False."""
    plain = _plain(value)
    if not isinstance(plain, bool):
        raise ValueError(f"{_shown(label, name, value)} is neither True nor False.")
    return plain


def one_of(*values: str) -> Any:
    """A check for one of a few words."""

    def check(label: str, name: str, value: Any) -> str:
        if not isinstance(value, str) or value not in values:
            raise ValueError(f"{_shown(label, name, value)} is unknown; expected one of {', '.join(values)}.")
        return value

    return check


def bounds(label: str, name: str, value: Any) -> tuple[float | None, float | None] | None:
    """A check for (low, high), either of them None; or None."""
    if value is None:
        return None
    try:
        low, high = (None if each is None else number(0.0, closed=True)("", name, each) for each in value)
        right = low is None or high is None or low <= high
    except (TypeError, ValueError):
        right = False
    if not right:
        raise ValueError(
            f"{_shown(label, name, value)} is not a pair of bounds; expected (low, high) with 0 <= low <= high, either "
            "of them None for no bound."
        )
    return low, high


def patterns(label: str, name: str, value: Any) -> Any:
    """A check for regular expressions or the name of a set of them; see `exclusions`."""
    return exclusions.check_patterns(name, value)


KERAS = {
    # 0 means no clipping, as in Keras.
    "clipnorm": Argument(None, optional(number(0.0))),
    "clipvalue": Argument(None, optional(number(0.0))),
    "global_clipnorm": Argument(None, optional(number(0.0))),
    "use_ema": Argument(False, flag),
    "ema_momentum": Argument(0.99, number(0.0, 1.0, closed=True)),
    "ema_overwrite_frequency": Argument(None, optional(count)),
}
LAYERWISE = {
    "exclude_from_weight_decay": Argument(None, patterns),
    "exclude_from_layer_adaptation": Argument(None, patterns),
    "accumulation_steps": Argument(1, count),
    "layer_statistics": Argument(False, flag),
    "jit_compile": Argument(None, optional(flag)),
    **KERAS,
}
_BETAS = {"beta_1": Argument(0.9, number(0.0, 1.0)), "beta_2": Argument(0.999, number(0.0, 1.0))}

# By registered name, for the Keras of the trainers: tf_keras. `registry` gives Keras' own their
# `exclude_from_weight_decay`.
TABLES: dict[str, dict[str, Argument]] = {
    "lamb": {
        "learning_rate": Argument(0.001, changing()),
        **_BETAS,
        "epsilon": Argument(1e-6, number(0.0)),
        "weight_decay": Argument(0.0, changing(none_is=0.0)),
        "bias_correction": Argument(True, flag),
        "trust_ratio_bounds": Argument(None, bounds),
        "pre_normalize": Argument(False, flag),
        **LAYERWISE,
    },
    "lars": {
        "learning_rate": Argument(0.01, changing()),
        "momentum": Argument(0.9, number(0.0, 1.0)),
        "weight_decay": Argument(0.0, changing(none_is=0.0)),
        "eeta": Argument(0.001, number(0.0, above=True)),
        "epsilon": Argument(0.0, number(0.0)),
        "nesterov": Argument(False, flag),
        "form": Argument("paper", one_of(*LARS_FORMS)),
        **LAYERWISE,
    },
    "adamw": {
        "learning_rate": Argument(0.001, changing()),
        "weight_decay": Argument(0.004, optional(number(0.0))),
        **_BETAS,
        "epsilon": Argument(1e-7, number(0.0)),
        "amsgrad": Argument(False, flag),
        "jit_compile": Argument(True, flag),
        "exclude_from_weight_decay": Argument(None, patterns),
        **KERAS,
    },
    "momentum": {
        "learning_rate": Argument(0.01, changing()),
        "momentum": Argument(0.9, number(0.0, 1.0, closed=True)),
        "nesterov": Argument(False, flag),
        "weight_decay": Argument(None, optional(number(0.0))),
        "jit_compile": Argument(True, flag),
        "exclude_from_weight_decay": Argument(None, patterns),
        **KERAS,
    },
}
