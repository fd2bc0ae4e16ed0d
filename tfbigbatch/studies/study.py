"""Study files: the rows of one table, methods at batch sizes, each at several seeds.

A study file is Python with a function `get_study()`:

    def get_study():
        table = study.new("Digits-LSTM, 40 epochs", baseline="baseline", target=0.95)
        config = experiment.variant_of(__file__, "lstm_small_batch.py")
        table.add("baseline", config, seeds=(0, 1, 2))
        config.batch_size = 512
        table.add("naive", config, seeds=(0, 1, 2))
        return table

It is executed: run only files that you trust.
"""

import copy
import re

from tfbigbatch import experiment
from tfbigbatch.errors import InputError, nearest
from tfbigbatch.studies.entry import Entry


def new(title, *, baseline=None, target=None):
    """An empty Study.

    Args:
      title: what is compared, for the plots.
      baseline: the method that the others are held against; added as any other.
      target: value of the task's metric; the table shows how soon each row reaches it.
    """
    return Study(title, baseline, target)


def carried(config, batch_size, rule, *, tuned_at=None, optimizer=None, learning_rate=None, warmup_epochs=None):
    """A copy of an experiment whose recipe `rule` carries to another batch size.

    Args:
      config: the experiment.
      batch_size: of the copy.
      rule: of `schedule.rule`.
      tuned_at: None, or the batch size at which `learning_rate` and `warmup_epochs` were found, where it is not the
        experiment's.
      optimizer: None, or the fields of another one.
      learning_rate, warmup_epochs: None, or others than the experiment's.
    """
    config = copy.deepcopy(config)
    config.batch_size = batch_size
    config.schedule.rule = rule
    if tuned_at is not None:
        config.schedule.batch_size = tuned_at
    if optimizer is not None:
        config.optimizer = optimizer
    if learning_rate is not None:
        config.schedule.learning_rate = learning_rate
    if warmup_epochs is not None:
        config.schedule.warmup_epochs = warmup_epochs
    return config


def with_adasum(config, replicas):
    """A copy of an experiment on simulated replicas, whose gradients or updates Adasum combines.

    Args:
      config: the experiment; its batch size is that of all replicas together.
      replicas: number of them.
    """
    config = copy.deepcopy(config)
    config.optimizer = {**config.optimizer.to_dict(), "adasum": True}
    config.simulated_replicas = replicas
    return config


def add_workers(table, name, config, workers, *, seeds, tuned="", times=None, on_one_device=True):
    """Adds the rows of data-parallel workers: averaged, summed, and combined by Adasum, at one worker's rate.

    The average of the workers' gradients is the gradient of the whole batch, so that row runs on one device, unless the
    workers' batch normalisation makes it another; their sum is the average at the rate times the workers.

    Args:
      table: Study.
      name: first words of the rows' names.
      config: the experiment of one worker.
      workers: number of them; each has the batch of `config`.
      seeds: as in `Study.add`, or a function that gives them of a row's name.
      tuned: as in `Study.add`.
      times: None, or by "average" and "Adasum" what else the rate is multiplied by, a row each, as
        {"average": (2, 4), "Adasum": (0.5,)}. Their names end in "x2".
      on_one_device: False where examples of a batch know of each other: all rows then run on simulated replicas.
    """
    averaged = carried(config, config.batch_size * workers, "none")
    averaged.simulated_replicas = 0 if on_one_device else workers
    rows = {"average": averaged, "sum": carried(averaged, averaged.batch_size, "linear")}
    rows["Adasum"] = with_adasum(averaged, workers)
    for method, factors in (times or {}).items():
        for factor in factors:
            rate = factor * averaged.schedule.learning_rate
            rows[f"{method}, x{factor:g}"] = carried(rows[method], averaged.batch_size, "none", learning_rate=rate)
    for method, row in rows.items():
        row_name = f"{name}, {method}"
        table.add(row_name, row, seeds=seeds(row_name) if callable(seeds) else seeds, tuned=tuned)


class Study:
    """Rows of one table; see `new`.

    Attributes:
      title, baseline, target: as given to `new`.
      entries: list of `training.entry.Entry`, in the order of the table.
    """

    def __init__(self, title, baseline=None, target=None):
        self.title = title
        self.baseline = baseline
        self.target = target
        self.entries = []

    def add(self, method, config, *, seeds=(0,), tuned=""):
        """Adds a row: `method` at the config's batch size. The config is copied, and may be changed further.

        Args:
          method: name of the row, as "LEGW"; with the batch size it is the row's key.
          config: from `experiment.new`, `load` or `variant_of`.
          seeds: whole numbers, each once.
          tuned: words on how the recipe was found, as "10 rates x 2 warm-ups at this batch".

        Raises:
          ValueError: the row is there already, is of another task, or has no seed.
        """
        seeds = tuple(seeds)
        here = f"study {self.title!r}, row {method!r} at batch {config.batch_size:,}"
        if not seeds or len(set(seeds)) < len(seeds):
            raise InputError(f"{here}: seeds={seeds}; expected at least one, and each once, as (0, 1, 2).")
        if not _slug(method):
            raise InputError(f"{here}: the name holds no letter or digit; expected a method's name, as 'LEGW'.")
        folder = f"{_slug(method)}/batch-{config.batch_size}"
        for entry in self.entries:
            if entry.config.task != config.task:
                raise InputError(f"{here}: task {config.task}, but the rows before are of {entry.config.task}.")
            if entry.folder.lower() == folder.lower():
                raise InputError(f"{here}: there is such a row already. Give it another name or batch size.")
        self.entries.append(Entry(method, copy.deepcopy(config), seeds, folder, tuned))

    def selected(self, names):
        """The entries of some rows.

        Args:
          names: list of METHOD or METHOD@BATCH, in any case; empty for all.

        Raises:
          ValueError: there is no such row.
        """
        chosen = []
        for name in names:
            found = [entry for entry in self.entries if name.lower() in _names(entry)]
            if not found:
                known = [f"{entry.name}@{entry.config.batch_size}" for entry in self.entries]
                cut = next((each for each in known if each.lower().startswith(f"{name},".lower())), None)
                quotes = f" A name with a comma stands in double quotes: --only='\"{cut}\"'." if cut else ""
                raise InputError(f"--only={name}: the study has no such row. {nearest(name, known)}{quotes}")
            chosen.extend(found)
        return [entry for entry in self.entries if entry in chosen] if names else list(self.entries)


def load(path):
    """The study that a study file gives.

    Raises:
      ValueError: there is no such file, it has no `get_study`, or its study has no rows or no baseline.
    """
    study = experiment.call(path, "get_study", flag="study", example="experiments/mnist/study.py")
    if not isinstance(study, Study):
        raise InputError(f"--study={path}: get_study() returned {type(study).__name__}; expected what study.new gave.")
    if not study.entries:
        raise InputError(f"--study={path}: the study has no rows; add some with its add().")
    methods = [entry.name for entry in study.entries]
    if study.baseline is not None and study.baseline not in methods:
        raise InputError(
            f"--study={path}: the baseline {study.baseline!r} is not among its rows. {nearest(study.baseline, methods)}"
        )
    return study


def _slug(method):
    """A name for a folder that no shell trips over."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", method).strip("-.")


def _names(entry):
    names = {entry.name.lower(), _slug(entry.name).lower()}
    return names | {f"{name}@{entry.config.batch_size}" for name in names}
