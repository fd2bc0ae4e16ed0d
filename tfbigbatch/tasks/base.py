"""The interface of every task: model, data, loss, metrics and target."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from tfbigbatch.errors import InputError

if TYPE_CHECKING:
    # The registry of tasks imports this module, and the command line imports that without TensorFlow.
    import keras

    from tfbigbatch.data.dataset import Dataset
    from tfbigbatch.tasks.output_bias import ConstantLoss

Tensors = Any
"""A tensor, or a nest of tensors."""
CLASSES = "classes.json"
"""The file of a run directory with the names of the classes, by index; a task puts it among its `run_files`."""
MINIVAL = "minival"
"""A held-out split cut from the training examples, to choose a recipe on; and the data's field with its size."""


class Task:
    """A network to train, its data, loss and metrics, and the metric that tells the quality of a run.

    A subclass sets the attributes that differ from the defaults below, reads its data in `__init__`, and defines
    `network`, `loss` and `metrics`. `tasks.register` makes it known by name.

    Args:
      model: the fields of the config's `model`.
      data: the fields of the config's `data`.
      data_dir: folder of the data; None for a task that brings its own.
      use_fake_data: a few made-up examples of the right shapes in place of the data.
    """

    models: ClassVar[Sequence[str]] = ()
    """Names of the models that a config chooses from; () where the task has one model."""
    model_defaults: ClassVar[Mapping[str, Any]] = {}
    """Fields of the model with their defaults, where the task has one model; else see `model_defaults_of`."""
    data_defaults: ClassVar[Mapping[str, Any]] = {}
    """Fields of the input pipeline with their defaults."""
    target: ClassVar[str] = "accuracy"
    """The metric that tells the quality of a run."""
    higher_is_better: ClassVar[bool] = True
    """True if a larger `target` is better."""
    evaluates_on: ClassVar[Sequence[str]] = ("validation",)
    """Names of the held-out splits; a config chooses one, and each is an attribute of the task."""
    carries_state: ClassVar[bool] = False
    """True if the network's state is carried from one step to the next (truncated backpropagation)."""
    metrics_in_training: ClassVar[bool] = True
    """True if training steps update the metrics; False where one costs as much as the loss."""
    metrics_with_scores: ClassVar[bool] = False
    """True if an evaluation of a task with `has_scores` also computes the metrics."""
    has_scores: ClassVar[bool] = False
    """True if `scores` computes the target from all outputs together, in one process."""
    smoke_sizes: ClassVar[Mapping[str, Any]] = {}
    """Fields of the model in a run on made-up data."""
    quick_sizes: ClassVar[Mapping[str, int]] = {}
    """The largest values of fields of the model in a quick run."""
    training_examples: ClassVar[int | None] = None
    """Examples in an epoch where they are known without the data; None where the data tells."""

    train: Dataset
    data_signature: str = "nothing"
    """The words for what the data determines about the network ('10 classes'); the same in all phases of a run."""
    network_facts: Mapping[str, Any] = {}
    """The facts that the data determines about the network, as `network_from` takes them: JSON values, which a run's
    config.json keeps."""
    checks: Sequence[Callable[[], None]] = ()
    """Functions that raise ValueError where too many records are bad; called as a run proceeds."""
    batch_slices: Sequence[Callable[..., Tensors]] = ()
    """Functions that cut a training batch to a bucket's static shape, one for each bucket; () for one shape."""
    real_examples: Callable[..., tuple[Tensors, Tensors, Any]] | None = None
    """A function of an evaluation batch's (labels, outputs, mask) that returns (labels, outputs, weights) without its
    padding, where shapes may vary; None where all metrics are sums and counts, which the mask suffices for."""
    score_signature: str | None = None
    """The identifier of how the score is computed (sacrebleu's signature); None for none."""
    run_files: Mapping[str, bytes] = {}
    """Files of the data that a run directory keeps, so that the trained model can be used without the data."""

    def __init__(
        self, *, model: Mapping[str, Any], data: Mapping[str, Any], data_dir: str | None, use_fake_data: bool
    ) -> None:
        del model, data, data_dir, use_fake_data

    @classmethod
    def model_defaults_of(cls, name: str) -> dict[str, Any]:
        """Fields of the model `name` with their defaults, for a task with several `models`; raises for another name."""
        raise InputError(f"{cls.__name__} has one model; there is none named {name!r}.")

    @classmethod
    def smoke_model(cls, model: Mapping[str, Any]) -> dict[str, Any]:
        """Fields that a smoke run changes, for a tiny model of the same structure."""
        del model
        return dict(cls.smoke_sizes)

    @classmethod
    def quick_model(cls, model: Mapping[str, Any]) -> dict[str, Any]:
        """Fields that a quick run changes, for a model of the same kind that two CPU cores train in minutes."""
        return {field: min(model[field], size) for field, size in cls.quick_sizes.items()}

    @classmethod
    def quick_data(cls, data: Mapping[str, Any], data_dir: str | None) -> dict[str, Any]:
        """Fields of the data that a quick run changes, such as those that cost most time."""
        del data, data_dir
        return {}

    @classmethod
    def count_examples(cls, data: Mapping[str, Any], data_dir: str | None) -> int | None:
        """Training examples in an epoch, for the arithmetic of a recipe without a run; None where it takes a run."""
        del data, data_dir
        return cls.training_examples

    def held_out(self, split: str) -> Dataset:
        """The held-out split with this name, one of `evaluates_on`; raises ValueError where there is none."""
        if split not in self.evaluates_on:
            raise InputError(f"evaluate_on={split!r}: expected one of {', '.join(self.evaluates_on)}.")
        dataset: Dataset | None = getattr(self, split, None)
        if dataset is None:
            others = [name for name in self.evaluates_on if getattr(self, name, None) is not None]
            how = "Set data.minival to their number, as 1000" if split == MINIVAL else "Prepare the data with it"
            raise InputError(
                f"evaluate_on={split!r}: no such examples are held out, but {', '.join(others) or 'none'}. {how}."
            )
        return dataset

    def network(self) -> keras.Model:
        """The Keras model, from a batch's features to its outputs (usually logits)."""
        raise NotImplementedError(f"{type(self).__name__} defines no network().")

    @classmethod
    def network_from(cls, model: Mapping[str, Any], facts: Mapping[str, Any]) -> keras.Model:
        """The Keras model of a config's `model` with random initial values, without the data; for tasks with
        `network_facts`. These come from a file that may be anybody's: read them by `fact`."""
        del model, facts
        raise NotImplementedError(f"{cls.__name__} defines no network_from().")

    def banner_lines(self) -> Sequence[str]:
        """Lines for a run's banner on what the data determined, beside its size."""
        return ()

    def constant_loss(self) -> ConstantLoss | None:
        """The training loss of the best prediction that is the same for all inputs; None where it is not known."""
        return None

    def loss(self) -> Any:
        """The training loss, as `compile` takes it: a Keras loss of (labels, outputs), or one for each output."""
        raise NotImplementedError(f"{type(self).__name__} defines no loss().")

    def loss_weights(self) -> Any:
        """The numbers that the losses of several outputs are multiplied by, as `compile` takes them; None for 1."""
        return None

    def metrics(self) -> Any:
        """Weighted metrics, as `compile` takes them: each a sum and a count, so that a mask excludes padding."""
        return []

    def check_metrics(self, *, is_static: bool) -> None:
        """Raises ValueError for a metric that cannot be used, once the network is built, outside of a strategy's scope.

        Args:
          is_static: whether a batch keeps its shape on the devices, so that `real_examples` cannot be used.
        """

    def predictions(self, network: keras.Model, features: Tensors) -> Tensors:
        """The outputs of a batch to score; by default the network's."""
        return network(features, training=False)

    def in_order(self, held_out: Any, outputs: Any) -> Any:
        """The outputs of a held-out split in the order of its examples, from that of its evaluation batches."""
        del held_out
        return outputs

    def scores(self, held_out: Any, outputs: Any) -> dict[str, float]:
        """Scores of a held-out split, for a task with `has_scores`, from the `predictions` of all its examples as NumPy
        arrays, in order."""
        raise NotImplementedError(f"{type(self).__name__} defines no scores().")

    def texts(self, outputs: Any) -> list[str] | None:
        """The lines of text that `outputs` stand for, which a run keeps beside its scores; None for no text."""
        del outputs
        return None


def fact(facts: Mapping[str, Any], name: str) -> int:
    """A whole number, 0 or more, among a network's facts, or a truth value; raises ValueError for something else."""
    found = facts.get(name)
    if not isinstance(found, int) or not 0 <= found < 2**31:
        raise InputError(f"network_facts.{name} is {found!r:.80}; expected a whole number from 0 to 2^31 - 1.")
    return found
