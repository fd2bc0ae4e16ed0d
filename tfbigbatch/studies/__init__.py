"""Studies: series of runs behind one results table."""

from tfbigbatch.studies.study import Study, load, scaled

__all__ = ["Study", "load", "scaled"]
