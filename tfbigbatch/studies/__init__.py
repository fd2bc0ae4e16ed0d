"""Studies: series of runs behind one results table."""

from tfbigbatch.studies.study import Entry, Study, load, new, scaled, with_adasum

__all__ = ["Entry", "Study", "load", "new", "scaled", "with_adasum"]
