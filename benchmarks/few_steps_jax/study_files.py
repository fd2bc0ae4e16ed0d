"""Loads study files, by task."""

import os

from tfbigbatch import experiment
from tfbigbatch.errors import InputError
from tfbigbatch.experiment import files
from tfbigbatch.experiments.few_steps import study as few_steps
from tfbigbatch.studies import study


def name(path):
    """The name of a study, 'few_steps/study', whether its name or its path is given."""
    found, shipped = os.path.realpath(files.find(path)[0]), os.path.realpath(files.SHIPPED)
    return os.path.relpath(found, shipped if found.startswith(shipped + os.sep) else None).removesuffix(".py")


def load(path, task):
    """The study of a task.

    Args:
      path: of a study file, or its name.
      task: the study's variant, where it has variants.

    Raises:
      ValueError: there is no such study, or it is of another task.
    """
    has_variants = hasattr(files.executed(files.find(path)[0]), "VARIANTS")
    found = study.load(f"{path}:{task}" if has_variants else path)
    trained, expected = found.rows()[0].config.task, experiment.load(few_steps.VARIANTS[task].base).task
    if trained != expected:
        raise InputError(f"--study={path} trains {trained}, and --tasks has {task}; expected tasks of the study alone.")
    return found
