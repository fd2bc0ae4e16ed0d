"""Module names of earlier versions: each still imports, as the module of today, and warns once."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
import types
import warnings
from collections.abc import Sequence

# Old name: today's.
MOVED = {
    "tfbigbatch.study": "tfbigbatch.studies.study",
    "tfbigbatch.scores": "tfbigbatch.tasks.scores",
    "tfbigbatch.scores.bleu": "tfbigbatch.tasks.scores.bleu",
    "tfbigbatch.scores.glue": "tfbigbatch.tasks.scores.glue",
    "tfbigbatch.scores.race": "tfbigbatch.tasks.scores.race",
    "tfbigbatch.scores.squad": "tfbigbatch.tasks.scores.squad",
    "tfbigbatch.data.bert_records": "tfbigbatch.data.bert.dataset",
    "tfbigbatch.data.translation_records": "tfbigbatch.data.translation.dataset",
    "tfbigbatch.data.wordpiece": "tfbigbatch.data.tokenizer",
}


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        return importlib.machinery.ModuleSpec(fullname, self) if fullname in MOVED else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        return None

    def exec_module(self, module: types.ModuleType) -> None:
        old = module.__name__
        warnings.warn(f"{old} is now {MOVED[old]}; the old name will go.", FutureWarning, stacklevel=2)
        # The import system returns what sys.modules holds after this call.
        sys.modules[old] = importlib.import_module(MOVED[old])


def install() -> None:
    """Makes the old names importable; once for a process."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())
