"""Runs the rows of a study in stages: what a tuned row runs next depends on its trials so far."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from tfbigbatch.studies.entry import Entry
from tfbigbatch.studies.results_cache import ResultsCache
from tfbigbatch.studies.study import Study
from tfbigbatch.studies.tuned_row import TunedRow


def run_rows(rows: Sequence[Entry | TunedRow], model_dir: str, run_entries: Callable[[list[Entry]], object]) -> None:
    """Runs rows until all are complete: each tuned row's first trial, then each one's second, and so on.

    Args:
      rows: of a study.
      model_dir: parent of the run directories.
      run_entries: runs some entries, and returns when they have ended.
    """
    plain = [row for row in rows if isinstance(row, Entry)]
    if plain:
        run_entries(plain)
    tuned = [row for row in rows if isinstance(row, TunedRow)]
    while rounds := [found for row in tuned if (found := row.search(model_dir).next_entries(model_dir))]:
        run_entries([entry for each in itertools.zip_longest(*rounds) for entry in each if entry])


def restore(table: Study, model_dir: str, path: str) -> None:
    """Writes the run directories of a study's rows that a `ResultsCache` has and `model_dir` lacks.

    Args:
      table: the study.
      model_dir: parent of the run directories.
      path: of the cache, which need not exist.
    """
    cache = ResultsCache(path)

    def restored(entry: Entry) -> int:
        return sum(cache.restore(entry.directory(model_dir, s), entry.config_at(s).to_dict()) for s in entry.seeds)

    for entry in table.entries:
        restored(entry)
    for row in table.tuned:
        while sum(restored(entry) for entry in row.search(model_dir).next_entries(model_dir)):
            pass
