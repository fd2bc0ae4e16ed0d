"""The arguments of Adasum and LocalSteps: without TensorFlow, for the checks of a config and for the reference."""

from __future__ import annotations

from typing import Any

from tfbigbatch.optimizers import declared
from tfbigbatch.optimizers.declared import Declared, hyper


class WrapperArguments(Declared):
    """Those of both."""

    inner_optimizer: Any = hyper(
        declared.anything, "any optimizer of this Keras: ours or its own.", kw_only=False, alias="optimizer"
    )


class AdasumArguments(WrapperArguments):
    """Those of `adasum.Adasum`."""

    combine: str | None = hyper(
        declared.optional(declared.one_of("gradients", "updates")),
        "'gradients': combined before the optimizer, as the paper does for momentum SGD. 'updates': after it, as for "
        "Adam and LAMB. None: 'gradients' for SGD and LARS, 'updates' for all others.",
        default=None,
        kw_only=False,
    )
    group_size: int = hyper(
        declared.count,
        "replicas whose gradients are averaged first; Adasum is across groups of neighbours. The replicas of a host, "
        "for example.",
        default=1,
        kw_only=False,
    )


class LocalStepsArguments(WrapperArguments):
    """Those of `local_steps.LocalSteps`."""

    every: int = hyper(declared.count, "H, steps of a round.", kw_only=False)
    outer: str = hyper(
        declared.one_of("average", "nesterov", "adasum"),
        "what becomes of the replicas' changes of the weights. 'average': their mean is taken over. 'nesterov': their "
        "mean is a step of SGD with Nesterov momentum. 'adasum': they are combined by Adasum.",
        default="average",
    )
    outer_learning_rate: float | None = hyper(
        declared.optional(declared.positive), "of the outer step. None: 1; for 'nesterov' 0.7.", default=None
    )
    outer_momentum: float | None = hyper(
        declared.optional(declared.fraction), "of the outer step. None: 0; for 'nesterov' 0.9.", default=None
    )
    group_size: int = hyper(
        declared.count,
        "replicas that average their gradients at every step, and so take their steps together: neighbours by their "
        "numbers, such as those of a host.",
        default=1,
    )
    data_parallel_steps: int = hyper(
        declared.whole,
        "steps at the beginning in which all replicas average their gradients, a multiple of `every` (post-local SGD, "
        "Lin et al. 2020, arXiv:1808.07217).",
        default=0,
    )
