"""LARS and LAMB for Keras. `tfbigbatch.LAMB` is the usual way in; `get` makes any by name."""

from tfbigbatch.optimizers.registry import get, names

__all__ = ["get", "names"]
