"""The studies whose rows are run."""

from tfbigbatch.experiment import files
from tfbigbatch.studies import study


def load(path, task):
    """The study of a task.

    Args:
      path: of a study file, or its name.
      task: the study's variant, where it has variants.
    """
    has_variants = hasattr(files.executed(files.find(path)[0]), "VARIANTS")
    return study.load(f"{path}:{task}" if has_variants else path)
