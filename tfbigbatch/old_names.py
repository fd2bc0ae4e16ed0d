"""Names of earlier versions: each resolves to the module or object of today, and warns once."""

from __future__ import annotations

import importlib
import importlib.machinery
import sys
import types
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

# Old module: today's.
MOVED = {
    "tfbigbatch.study": "tfbigbatch.studies.study",
    "tfbigbatch.scores": "tfbigbatch.tasks.scores",
    "tfbigbatch.scores.bleu": "tfbigbatch.tasks.scores.bleu",
    "tfbigbatch.scores.glue": "tfbigbatch.tasks.scores.glue",
    "tfbigbatch.scores.race": "tfbigbatch.tasks.scores.race",
    "tfbigbatch.scores.squad": "tfbigbatch.tasks.scores.squad",
    "tfbigbatch.data.bert_records": "tfbigbatch.data.bert.dataset",
    "tfbigbatch.data.translation_records": "tfbigbatch.data.translation.dataset",
    "tfbigbatch.data.bert_manifest": "tfbigbatch.data.bert.manifest",
    "tfbigbatch.data.translation_manifest": "tfbigbatch.data.translation.manifest",
    "tfbigbatch.data.glue": "tfbigbatch.data.finetuning.glue",
    "tfbigbatch.data.race": "tfbigbatch.data.finetuning.race",
    "tfbigbatch.data.squad": "tfbigbatch.data.finetuning.squad",
    "tfbigbatch.data.squad_questions": "tfbigbatch.data.finetuning.squad",
    "tfbigbatch.data.wordpiece": "tfbigbatch.data.tokenizer",
    "tfbigbatch.optimizers.tf_keras": "tfbigbatch.optimizers.keras2",
    "tfbigbatch.schedules.tf_keras": "tfbigbatch.schedules.keras2",
    "tfbigbatch.scaling.tf_keras": "tfbigbatch.scaling.keras2",
    "tfbigbatch.instruments.tf_keras": "tfbigbatch.instruments.keras2",
}
# Old attribute: module and name of today's.
RENAMED = {"tfbigbatch.scaling.govern": ("tfbigbatch.scaling", "make_adjustable")}


# Not a subclass of importlib.abc's: importing those would cost a third of `import tfbigbatch`.
class _Finder:
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        loader: Any = self
        return importlib.machinery.ModuleSpec(fullname, loader) if fullname in MOVED else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        return None

    def exec_module(self, module: types.ModuleType) -> None:
        old = module.__name__
        warnings.warn(f"{old} is now {MOVED[old]}; the old name will go.", FutureWarning, stacklevel=2)
        # The import system returns what sys.modules holds after this call.
        sys.modules[old] = importlib.import_module(MOVED[old])


def attribute(module: str, name: str, known: Iterable[str]) -> Any:
    """The object for an old attribute of a module, with a warning at the first access; for a module's `__getattr__`.

    Raises:
      AttributeError: there is no such old name; `known` are the names that the message lists.
    """
    old = f"{module}.{name}"
    if old in MOVED:
        return importlib.import_module(old)
    if old not in RENAMED:
        raise AttributeError(f"module {module!r} has no attribute {name!r}; it has {', '.join(known)}")
    home, today = RENAMED[old]
    warnings.warn(f"{old} is now {home}.{today}; the old name will go.", FutureWarning, stacklevel=4)
    value = getattr(importlib.import_module(home), today)
    # Found without `__getattr__` from now on.
    setattr(sys.modules[module], name, value)
    return value


def install() -> None:
    """Makes the old module names importable."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        # First: the path of a moved package would give a second copy of its modules.
        sys.meta_path.insert(0, _Finder())
