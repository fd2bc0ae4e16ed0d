"""Studies: series of runs behind one results table."""

from tfbigbatch.studies.rows import Entry
from tfbigbatch.studies.study import Study, load, new, scaled, with_adasum

__all__ = ["Entry", "Study", "load", "new", "scaled", "with_adasum"]
