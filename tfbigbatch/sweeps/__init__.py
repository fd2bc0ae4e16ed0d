"""Sweeps: series of runs behind one results table."""

from tfbigbatch.sweeps.sweep import Sweep, load, scaled

__all__ = ["Sweep", "load", "scaled"]
