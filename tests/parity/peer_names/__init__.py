"""Our optimizers under the names that the peers' own test files use; see `tests/parity/peer_suites.py`.

`SGD`, `Adam` and `AdamW` are LARS and LAMB with every layer excluded from the adaptation: LARS without a trust ratio is
SGD with momentum, and LAMB is AdamW. So the numbers in a peer's tests of SGD and Adam hold for ours, and what the tests
are about (clipping, averages, constraints, accumulation, saving) runs through our code.
"""

from typing import Any

_PLAIN = {"exclude_from_weight_decay": [], "exclude_from_layer_adaptation": [".*"]}


def stand_ins(ours: Any, registered: Any, module: str, **defaults: Any) -> tuple[type, type, type]:
    """SGD, Adam and AdamW for a module, made of a Keras' LARS and LAMB.

    Args:
      registered: the Keras' decorator of serializable classes.
      **defaults: further arguments of all.
    """

    @registered
    class SGD(ours.LARS):
        def __init__(self, learning_rate: Any = 0.01, momentum: float = 0.0, **options: Any) -> None:
            super().__init__(learning_rate, momentum=momentum, **{**_PLAIN, **defaults, **options})

    @registered
    class Adam(ours.LAMB):
        def __init__(self, learning_rate: Any = 0.001, epsilon: float = 1e-7, **options: Any) -> None:
            super().__init__(learning_rate, epsilon=epsilon, **{**_PLAIN, **defaults, **options})

    @registered
    class AdamW(Adam):
        def __init__(self, learning_rate: Any = 0.001, weight_decay: float = 0.004, **options: Any) -> None:
            super().__init__(learning_rate, weight_decay=weight_decay, **options)

    for each in (SGD, Adam, AdamW):
        # Pickled by the name of their module.
        each.__module__, each.__qualname__ = module, each.__name__
    return SGD, Adam, AdamW
