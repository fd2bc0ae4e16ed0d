"""`tune`: carries a recipe to a larger batch for about the price of three runs."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import inspect
import os
import pickle
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import cloudpickle
from ml_collections import ConfigDict

from tfbigbatch import tasks, train
from tfbigbatch.config import new_config, set_fields
from tfbigbatch.config.files import find, was_named
from tfbigbatch.config.recipe import check_fields, check_plan
from tfbigbatch.errors import InputError
from tfbigbatch.run_directory.load import load_run
from tfbigbatch.run_directory.metric import Metric
from tfbigbatch.scaling.recipe import Recipe
from tfbigbatch.sweeps.local_processes import LocalProcesses
from tfbigbatch.sweeps.series import run_after_files
from tfbigbatch.tasks import registry
from tfbigbatch.tasks.base import MINIVAL
from tfbigbatch.training.phases import task_of
from tfbigbatch.tuning.candidates import SEARCHED, TUNED, SearchSpace
from tfbigbatch.tuning.executors import Here, as_executor
from tfbigbatch.tuning.experiment import advise_experiment
from tfbigbatch.tuning.halving import SHARES, STAY, Rungs
from tfbigbatch.tuning.result import Tuned, fields_of, tuned_of
from tfbigbatch.tuning.search import Search, rungs_of
from tfbigbatch.utils import arguments
from tfbigbatch.utils.home import expanded

# The task that `tune` registers for a model of a function.
_TASK = "tuned_model"
# Held-out splits that may decide, in the order of preference: the test set is for the end.
_DECIDING = ("valid", "validation", MINIVAL)
# Of the training examples, held out where a task has no other data to choose on: a share, or so many where that is
# fewer than a tenth.
_MINIVAL, _ENOUGH = 0.05, 1000


def tune(
    network: Callable[..., Any],
    data: Any,
    held_out: Any = 0.1,
    *,
    recipe: Recipe,
    batch_size: int,
    optimizer: str | Mapping[str, Any] = "adamw",
    budget: float = 3.0,
    loss: Any = None,
    metrics: Any = None,
    target: str | None = None,
    higher_is_better: bool | None = None,
    optimizers: Sequence[str] = (TUNED,),
    search: Sequence[str] = SEARCHED,
    rungs: Sequence[float] = SHARES,
    stay: Sequence[float] = STAY,
    last: str = "metric",
    executor: Any = None,
    folder: str | os.PathLike[str] | None = None,
    seed: int = 0,
    fields: Mapping[str, Any] | None = None,
    say: Callable[[str], None] = print,
) -> Tuned:
    """Carries the recipe of a model to a larger batch size, and trains the model by it.

    Trains several candidates around the carried recipe: at each rung those with the lowest training loss continue,
    exactly, as any run of the trainer resumes. The best on the held-out data in the end wins.

    Args:
      network: function that returns a new keras.Model (Keras 3 on TensorFlow); see `tasks.define`.
      data: the training examples: arrays, an indexable object, or a tf.data.Dataset; see docs/your_own.md. Or a
        function that returns them.
      held_out: examples that decide at the end, in the same forms; or the share of `data` to hold out; or None: the
        training loss decides.
      recipe: tuned at its `batch_size`, with its length in epochs; its optimizer's arguments may be in it.
      batch_size: that is wanted.
      optimizer: of the recipe: a registered name, or a dictionary of 'name' and arguments.
      budget: in runs at the batch size, 1 or more.
      loss, metrics, target, higher_is_better: see `tasks.define`.
      optimizers: registered names; 'tuned' is the recipe's.
      search: what is searched beside them: of 'rate', 'half_life' (of the moments), 'decay', 'warmup'.
      rungs: shares of a run at which candidates are left.
      stay: the shares of all candidates that stay at each rung.
      last: what decides between those at the end: 'metric', of the held-out data, or 'loss', of the training.
      executor: a concurrent.futures.Executor whose workers see `folder`; or 'here', 'slurm' or a number of local
        processes. None: two processes, or this one where there is a GPU.
      folder: of the candidates' run directories, which a later call with the same arguments continues, and TensorBoard
        reads. None: a temporary one.
      seed: of all candidates.
      fields: other fields of the config by their dotted names, as {'mixed_precision': 'bfloat16'}.
      say: called with lines of progress.

    Returns:
      Tuned: the model, its recipe and optimizer, all candidates; `print` it, or `plot`.

    Raises:
      ValueError: an argument or the data cannot be used, or all candidates diverged.
      Preempted: a signal stopped the search; with a `folder` the same call continues.
    """
    if not isinstance(recipe, Recipe) or recipe.epochs is None:
        raise InputError(f"tune: recipe={recipe!r}; expected a tfbigbatch.Recipe with its length, as epochs=10.")
    batch_size = arguments.integer("batch_size", batch_size, least=recipe.batch_size, owner="tune")
    definition = {
        "network": network,
        **_data(data, held_out),
        "loss": loss,
        "metrics": metrics,
        "target": target,
        "higher_is_better": higher_is_better,
    }
    _define(definition)
    _check_new(network)
    config = _config(recipe, optimizer, seed, fields or {})
    metric = Metric.of_task(_TASK, "validation") if held_out is not None else None
    with contextlib.ExitStack() as stack:
        if folder is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tune-"))
        folder = os.path.abspath(expanded(os.fspath(folder)))
        workers, count = as_executor(executor, folder)
        if workers is not executor:
            stack.callback(workers.shutdown)
        # In this process it is defined, and need not be picklable.
        sent = None if isinstance(workers, Here) else _pickled(definition)
        found = _search(
            config,
            batch_size,
            _Plan(budget, optimizers, search, rungs, stay, last),
            metric,
            folder=folder,
            advance=functools.partial(_advance, sent, "train_and_eval" if metric else "train"),
            executor=workers,
            workers=count,
            say=say,
        )
        winner = found.run()
        _define(definition)
        return tuned_of(found, model=load_run(winner.directory).network)


def tune_experiment(
    config: ConfigDict,
    *,
    batch_size: int | None,
    folder: str,
    data_dir: str | None = None,
    budget: float = 3.0,
    optimizers: Sequence[str] = (TUNED,),
    search: Sequence[str] = SEARCHED,
    rungs: Sequence[float] = SHARES,
    stay: Sequence[float] = STAY,
    last: str = "metric",
    executor: Any = None,
    use_fake_data: bool = False,
    flags: str | None = None,
    say: Callable[[str], None] = print,
) -> Tuned:
    """Carries the recipe of an experiment to a larger batch size; see `tune`.

    Where the experiment is evaluated on its test data, the candidates are compared on other data: the task's 'valid' or
    'validation', or training examples that are held out, 'minival'. The winner is then evaluated on the test data too.

    Args:
      config: of the experiment, with the tuned recipe.
      batch_size: that is wanted; None for the one that `advise` finds worth using.
      folder: of the candidates' run directories; see `tune`.
      data_dir: folder of the task's data.
      use_fake_data: made-up data in its place.
      flags: that name the experiment on the command line, for the command that trains the winner again.
      budget, optimizers, search, rungs, stay, last, executor, say: see `tune`.

    Returns:
      Tuned, without the model: `load_run(tuned.winner.directory)` gives it.

    Raises:
      ValueError, Preempted: see `tune`.
    """
    folder, data_dir = os.path.abspath(expanded(folder)), expanded(data_dir)
    given, config, tested = config, _decided_on(config, say), config.evaluate_on
    own = find(config.experiment)[0] if config.experiment else ""
    files = [os.path.abspath(own)] if own and was_named(own) else []
    run = functools.partial(train.run, data_dir=data_dir, use_fake_data=use_fake_data, in_memory=True)
    if batch_size is None and use_fake_data:
        batch_size = 2 * config.batch_size
    if batch_size is None:
        batch_size = advise_experiment(config, data_dir=data_dir, say=say).batch_size
        say(f"batch      {batch_size:,}, as `tfbigbatch advise` measures it")
    workers, count = as_executor(executor, folder)
    with contextlib.nullcontext() if workers is executor else workers:
        found = _search(
            config,
            batch_size,
            _Plan(budget, optimizers, search, rungs, stay, last),
            Metric.of_task(config.task, config.evaluate_on),
            folder=folder,
            advance=functools.partial(run_after_files, run, files),
            executor=workers,
            workers=count,
            say=say,
            data_dir=data_dir,
            use_fake_data=use_fake_data,
        )
        winner = found.run()
        test = {}
        if tested != config.evaluate_on:
            there = copy.deepcopy(winner.config)
            there.evaluate_on = tested
            test = run(there, model_dir=winner.directory, mode="eval")["metrics"]
    return tuned_of(
        found,
        test=test,
        command=flags and f"{_threads(found.executor)}tfbigbatch train {flags} {fields_of(given, winner.config)}",
    )


@dataclasses.dataclass(frozen=True)
class _Plan:
    """What a search is asked to do, as `tune` has it."""

    budget: float
    optimizers: Sequence[str]
    search: Sequence[str]
    rungs: Sequence[float]
    stay: Sequence[float]
    last: str


def _search(
    config: ConfigDict,
    batch_size: int,
    plan: _Plan,
    metric: Metric | None,
    *,
    data_dir: str | None = None,
    use_fake_data: bool = False,
    **options: Any,
) -> Search:
    """The search with further `options` of `Search`, checked as far as can be before any training."""
    # A wrong number is refused before the data are looked at.
    Rungs.of_budget(plan.budget, plan.rungs, plan.stay)
    decides = arguments.one_of("last", plan.last, ("metric", "loss"), owner="tune")
    batch_size = arguments.integer("batch_size", batch_size, least=1, owner="tune")
    check_fields(config)
    check_plan(config)
    at_batch = copy.deepcopy(config)
    at_batch.batch_size = batch_size
    size = task_of(at_batch, data_dir, use_fake_data=use_fake_data).train.examples_in_epoch(batch_size)
    if batch_size > size:
        raise InputError(f"tune: batch_size={batch_size:,} is larger than the {size:,} training examples.")
    space = SearchSpace(
        config, dataset_size=size, batch_size=batch_size, optimizers=plan.optimizers, search=plan.search
    )
    found = Search(
        space=space,
        rungs=rungs_of(plan.budget, plan.rungs, plan.stay, space.total_steps),
        budget=plan.budget,
        metric=metric if decides == "metric" else None,
        **options,
    )
    found.prepare()
    for each in found.candidates:
        check_plan(each.config)
    return found


# ---- A model of a function ------------------------------------------------------------------------


def _data(data: Any, held_out: Any) -> dict[str, Any]:
    """The arguments `data` and `validation_fraction` of `tasks.define`."""
    for name, each in (("data", data), ("held_out", held_out)):
        if hasattr(each, "__next__"):
            raise InputError(
                f"tune: {name} is a {type(each).__name__}, which can be read once: each candidate reads it from its "
                "beginning. Expected arrays, an indexable object or a tf.data.Dataset, or a function that returns one."
            )
    share, splits = 0.1, {"train": data}
    if isinstance(held_out, (int, float)):
        share = arguments.number("held_out", held_out, above=0.0, below=1.0, owner="tune")
    else:
        # Without held-out data nothing is evaluated, and the split only has to be there.
        splits["validation"] = data if held_out is None else held_out

    def of_functions() -> dict[str, Any]:
        return {name: each() if inspect.isroutine(each) else each for name, each in splits.items()}

    return {"data": of_functions, "validation_fraction": share}


def _define(definition: Mapping[str, Any]) -> None:
    tasks.define(_TASK, **definition)


def _check_new(network: Callable[..., Any]) -> None:
    """Raises ValueError if the function returns one and the same model twice."""
    if any(each.default is each.empty for each in inspect.signature(network).parameters.values()):
        # It takes what the data gives; the task checks it.
        return
    first, second = network(), network()
    if first is second:
        raise InputError(
            "tune: network() returned the same model twice: each candidate begins with new weights. Make the model in "
            "the function, and return it."
        )


def _config(recipe: Recipe, optimizer: str | Mapping[str, Any], seed: int, fields: Mapping[str, Any]) -> ConfigDict:
    """The config of the recipe at its own batch size."""
    config = new_config(_TASK)
    given = {"name": optimizer} if isinstance(optimizer, str) else dict(optimizer)
    config.seed = arguments.integer("seed", seed, least=0, owner="tune")
    config.batch_size = recipe.batch_size
    config.duration = f"{recipe.epochs!r} epochs"
    config.optimizer = {**given, **recipe.optimizer}
    decay = {"name": recipe.decay} if isinstance(recipe.decay, str) else dict(recipe.decay)
    schedule = config.schedule
    schedule.learning_rate, schedule.warmup_epochs = recipe.learning_rate, recipe.warmup_epochs
    schedule.warmup_shape, schedule.decay = recipe.warmup_shape, decay.pop("name")
    schedule.update(decay)
    return set_fields(config, fields).copy_and_resolve_references().lock()


def _pickled(definition: Mapping[str, Any]) -> bytes:
    """The definition for another process, functions of a script or notebook included."""
    try:
        return bytes(cloudpickle.dumps(dict(definition)))
    except Exception as error:
        raise InputError(
            f"tune: the model's function, the data or the metrics cannot be sent to another process ({error}). Give "
            "functions that make them, or executor='here'."
        ) from None


def _advance(definition: bytes | None, mode: str, **options: Any) -> Any:
    """Trains a candidate of a model of a function, in any process."""
    if definition is not None:
        _define_sent(definition)
    return train.run(**options, mode=mode, in_memory=True)


@functools.lru_cache(maxsize=1)
def _define_sent(definition: bytes) -> None:
    """Registers the task in another process; once, where that makes several calls for a search."""
    _define(pickle.loads(definition))


# ---- An experiment --------------------------------------------------------------------------------


def _threads(executor: Any) -> str:
    """The variables of the environment that the candidates had: the order of a sum depends on the number of threads."""
    if not isinstance(executor, LocalProcesses):
        return ""
    names = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
    return "".join(f"{name}={executor.environment[name]} " for name in names)


def _decided_on(config: ConfigDict, say: Callable[[str], None]) -> ConfigDict:
    """The experiment evaluated on data that may decide, which the test set may not."""
    config = copy.deepcopy(config)
    splits = registry.get(config.task).evaluates_on
    if config.evaluate_on != splits[0]:
        # Chosen by the user.
        return config
    for split in (each for each in _DECIDING if each in splits and each != config.evaluate_on):
        config.evaluate_on = split
        if split == MINIVAL and not config.data.minival:
            size = registry.get(config.task).training_examples
            if size is None:
                return config
            config.data.minival = round(max(_MINIVAL * size, min(_ENOUGH, 0.1 * size)))
        say(f"choice     on {split}, so that {splits[0]} stays unseen until the end")
        break
    return config
