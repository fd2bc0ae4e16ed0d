"""Temporary."""

from typing import Any, NamedTuple

from tfbigbatch.optimizers.declared import Check, count, fraction, integer, one_of, optional, positive, whole


class Argument(NamedTuple):
    default: Any
    check: Check


ADASUM = {
    "combine": Argument(None, optional(one_of("gradients", "updates"))),
    "group_size": Argument(1, count),
}
LOCAL_STEPS = {
    "every": Argument(1, count),
    "outer": Argument("average", one_of("average", "nesterov", "adasum")),
    "outer_learning_rate": Argument(None, optional(positive)),
    "outer_momentum": Argument(None, optional(fraction)),
    "delay": Argument(0, integer(least=0, most=1)),
    "group_size": Argument(1, count),
    "data_parallel_steps": Argument(0, whole),
}
