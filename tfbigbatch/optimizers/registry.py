"""Optimizers by name: ours, and the baselines that a claim for ours must face."""

import inspect

from tfbigbatch.errors import InputError, nearest


def _makers():
    import tf_keras

    from tfbigbatch.optimizers import tf_keras as face

    return {
        "adamw": tf_keras.optimizers.AdamW,
        "lamb": face.LAMB,
        "lars": face.LARS,
        "momentum": tf_keras.optimizers.SGD,
    }


def names():
    """The registered names, sorted."""
    return sorted(_makers())


def accepted_arguments(maker):
    """The keyword arguments that a registered optimizer's constructor takes, its bases' included."""
    accepted = set()
    for cls in maker.__mro__:
        if "__init__" in vars(cls):
            parameters = inspect.signature(cls.__init__).parameters.values()
            accepted.update(p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY))
            if not any(p.kind is p.VAR_KEYWORD for p in parameters):
                break
    return accepted - {"self", "mesh"}


def get(name, **arguments):
    """Makes the optimizer registered under `name` with its constructor's keyword arguments.

    Raises:
      ValueError: the name, or an argument's name, is unknown; the nearest valid one is told.
    """
    makers = _makers()
    if name not in makers:
        raise InputError(f"optimizer {name!r} is unknown. {nearest(name, makers)}")
    accepted = accepted_arguments(makers[name])
    for argument in arguments:
        if argument not in accepted:
            raise InputError(f"optimizer {name!r} takes no argument {argument!r}. {nearest(argument, accepted)}")
    try:
        return makers[name](**arguments)
    except (TypeError, ValueError) as error:
        raise InputError(f"optimizer {name!r}: {error}") from None
