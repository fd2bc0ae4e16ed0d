"""The values of `mixed_precision`, and the policy of Keras that each stands for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

AUTO = "auto"
"""The faster of float32 and bfloat16 on the devices of the run; `training.precision` chooses."""
PRECISIONS = ("float32", "bfloat16", "float16", AUTO)


def keras_policy(precision: str) -> str:
    """The name of Keras' policy for a precision that is not AUTO: 'mixed_bfloat16' for 'bfloat16'."""
    return precision if precision == "float32" else f"mixed_{precision}"


def recorded_precision(content: Mapping[str, Any]) -> str:
    """The precision of a run, from the content of its config.json: that of the config, or what AUTO became."""
    wanted = content["config"]["mixed_precision"]
    return str(content.get("mixed_precision", "float32") if wanted == AUTO else wanted)
