"""`tasks.define`: a task of one's own from a Keras model function, data, a loss and metrics."""

from __future__ import annotations

import inspect
import json
import types
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from tfbigbatch.errors import InputError
from tfbigbatch.tasks import registry
from tfbigbatch.tasks.base import CLASSES, Task, fact
from tfbigbatch.utils.home import expanded_texts
from tfbigbatch.utils.user_code import check_objects

if TYPE_CHECKING:
    import keras

    from tfbigbatch.data.dataset import Dataset

# Arguments without a default that a network function may have: the data gives them.
_FROM_DATA = ("input_shape", "classes")
_FIELD_TYPES = (bool, int, float, str, tuple, list)
_HIGHER = ("accuracy", "acc", "auc", "precision", "recall", "f1", "fbeta", "r2", "iou", "bleu", "cosine_similarity")
_LOWER = ("loss", "error", "mse", "mae", "rmse", "mape", "msle", "entropy", "ce", "perplexity", "hinge", "divergence")

IMAGE_FOLDER = "image_folder.json"
"""The file of a run directory that says how the images of `from_image_folder` were read."""


class ReadyMade(Task):
    """A task that `define` makes a subclass for."""

    definition: ClassVar[types.SimpleNamespace]
    """The arguments of `define` that are not attributes of a task."""

    def __init__(
        self, *, model: Mapping[str, Any], data: Mapping[str, Any], data_dir: str | None, use_fake_data: bool
    ) -> None:
        from tfbigbatch.data.sources import splits
        from tfbigbatch.data.sources.image_folder import ImageFolder
        from tfbigbatch.tasks import own_parts

        given = self.definition
        found = splits.read(
            given.data,
            fields=expanded_texts(dict(data)),
            data_dir=data_dir,
            owner=given.name,
            held_out=self.evaluates_on,
            fraction=given.validation_fraction,
        )
        if use_fake_data:
            found = {name: splits.first_examples(split) for name, split in found.items()}
        for name, split in found.items():
            setattr(self, name, split)
        self._features, self._labels, *_ = splits.example_of(self.train)
        self._is_weighted = any(len(splits.example_of(split)) > 2 for split in found.values())
        classes = splits.classes_of(self.train)
        self._arguments = self._arguments_of(model, self._features, classes)
        self.real_examples = own_parts.weighted_examples
        if isinstance(self.train, ImageFolder):
            # To use the trained model on other images.
            kept = {CLASSES: self.train.names, IMAGE_FOLDER: {"image_size": self.train.image_size}}
            self.run_files = {name: (json.dumps(content) + "\n").encode() for name, content in kept.items()}
        self.data_signature = f"{splits.shape_of(self._features)}, {classes or 'no'} classes"
        self.network_facts = {"features": splits.described(self._features), "classes": classes}
        self._network: keras.Model | None = None
        self._outputs: Any = None

    @classmethod
    def _arguments_of(cls, model: Mapping[str, Any], features: Any, classes: int | None) -> dict[str, Any]:
        """The arguments of the network's function: the config's fields, and what it takes of the data."""
        from tfbigbatch.data.sources import splits

        function = cls.definition.network
        wanted = inspect.signature(function).parameters
        facts = {"input_shape": splits.shape_of(features), "classes": classes}
        found = {**model, **{name: value for name, value in facts.items() if name in wanted}}
        if "classes" in found and classes is None:
            raise InputError(
                f"task {cls.definition.name}: the number of classes is unknown, and {function.__name__}() takes it. "
                "Give the argument a default."
            )
        return found

    @classmethod
    def network_from(cls, model: Mapping[str, Any], facts: Mapping[str, Any]) -> keras.Model:
        from tfbigbatch.data.sources import splits
        from tfbigbatch.tasks.own_parts import built

        features = splits.from_description(facts.get("features"))
        classes = None if facts.get("classes") is None else fact(facts, "classes")
        arguments = cls._arguments_of(model, features, classes)
        return built(cls.definition.network, arguments, features, cls.definition.name)[0]

    def network(self) -> keras.Model:
        """The Keras model, from the features to the outputs, as the user's function returned it."""
        from tfbigbatch.tasks import own_parts

        given = self.definition
        self._network, self._outputs = own_parts.built(given.network, self._arguments, self._features, given.name)
        return self._network

    def loss(self) -> Any:
        """The loss as the user gave it; by default that of a classifier, from class numbers and logits."""
        from tfbigbatch.tasks import own_parts

        found = own_parts.loss_of(self.definition.loss, self._network, is_weighted=self._is_weighted)
        for split in (self.train, *(getattr(self, name) for name in self.evaluates_on)):
            own_parts.check_labels(split, found, self._labels, self._outputs)
        return found

    def loss_weights(self) -> Any:
        return self.definition.loss_weights

    def metrics(self) -> Any:
        """The metrics as the user gave them; for the default loss, by default those of a classifier."""
        import keras

        from tfbigbatch.tasks import own_parts

        given = self.definition
        found = own_parts.metrics_of(given.metrics, is_default=given.loss is None, is_weighted=self._is_weighted)
        flat = [each for each in keras.tree.flatten(found) if each is not None]
        names = [each if isinstance(each, str) else each.name for each in flat]
        # Of several outputs, Keras puts the output's name before the metric's.
        if not any(self.target == name or self.target.endswith(f"_{name}") for name in names):
            named = ", ".join(names) or "nothing"
            raise InputError(f"task {given.name}: target={self.target!r}, and its metrics are named {named}.")
        return found

    def check_metrics(self, *, is_static: bool) -> None:
        from tfbigbatch.tasks.own_parts import check_masked

        check_masked(self.metrics(), self._labels, self._outputs, self.definition.name, is_static=is_static)

    @classmethod
    def count_examples(cls, data: Mapping[str, Any], data_dir: str | None) -> int | None:
        from tfbigbatch.data.sources import splits

        given, fields = cls.definition, expanded_texts(dict(data))
        found = splits.read(
            given.data,
            fields=fields,
            data_dir=data_dir,
            owner=given.name,
            held_out=cls.evaluates_on,
            fraction=given.validation_fraction,
        )
        train: Dataset = found["train"]
        return train.examples_in_epoch(1)


def define(
    name: str,
    *,
    network: Callable[..., Any],
    data: Any,
    loss: Any = None,
    loss_weights: Any = None,
    metrics: Any = None,
    target: str | None = None,
    higher_is_better: bool | None = None,
    evaluates_on: Sequence[str] = ("validation",),
    validation_fraction: float = 0.1,
    quick: Mapping[str, Any] | None = None,
) -> None:
    """Registers a task of your own: a network, data, a loss and metrics. Call it in an experiment file.

        tasks.define("housing", network=network, data=data, loss="mse", metrics=["mae"])

    Loss and metrics are those of `keras.Model.compile`; the optimizer and `jit_compile` are the config's.

    Args:
      name: the config's `task`, in lower case.
      network: function that returns a keras.Model (Keras 3), which is trained as it is. Its arguments with defaults
        are the fields of the config's `model` (--config.model.width=64); of those without, the data gives
        `input_shape` (that of an example's features) and `classes`.
      data: the splits by name, {'train': ..., 'validation': ...}, or a function that returns them. Its arguments with
        defaults are the fields of the config's `data`, and `data_dir` is the flag. A split is (features, labels) or
        (features, labels, weights) of arrays, or dictionaries or tuples of arrays; an object with `len` and indices
        that gives (features, labels), as PyTorch's datasets; a Keras PyDataset or Sequence; or a tf.data.Dataset of
        single examples. See also `from_tf_data` and `from_image_folder`.
      loss: name, Keras loss, or function of (labels, outputs); a dictionary or list for several outputs; or a function
        without arguments that returns one. None for a classifier: cross entropy from class numbers and logits.
      loss_weights: numbers that the losses of several outputs are multiplied by, a dictionary or list as the loss.
      metrics: list of names, Keras metrics, or functions of (labels, outputs) that give a value for each example; a
        dictionary or list of lists for several outputs; or a function without arguments that returns them. Weights of
        examples apply to them. None for a classifier's accuracy and cross entropy, or for the loss where that is a
        name.
      target: the metric that tells the quality of a run; by default the first, and a classifier's accuracy.
      higher_is_better: whether a larger target is better; may be left out for Keras' common names.
      evaluates_on: names of the held-out splits; the first is the config's default.
      validation_fraction: the part of 'train' that is held out where the data has no 'validation'.
      quick: fields of the model that a quick run (--quick) changes, for one that a laptop trains in minutes. Without a
        folder of the data it trains on the first 64 examples.

    Raises:
      ValueError: an argument cannot be used.
    """
    owner = f"tasks.define({name!r})"
    check_objects(f"{owner}: loss", loss)
    check_objects(f"{owner}: metrics", metrics)
    if not 0.0 < validation_fraction < 1.0:
        raise InputError(f"{owner}: validation_fraction={validation_fraction}; expected a fraction, as 0.1.")
    if metrics is None and isinstance(loss, str):
        metrics = [loss]
    target = target or _first_metric(metrics, loss, owner)
    model = _fields(network, "network", owner, without_default=_FROM_DATA)
    if "name" in model:
        raise InputError(f"{owner}: network has an argument 'name', which chooses among models. Rename it.")
    unknown = ", ".join(sorted(set(quick or {}) - set(model)))
    if unknown:
        raise InputError(f"{owner}: quick has {unknown}; expected arguments of network with defaults.")
    attributes = {
        "__doc__": inspect.getdoc(network) or f"The task {name}.",
        "definition": types.SimpleNamespace(
            name=name,
            network=network,
            data=data,
            loss=loss,
            loss_weights=loss_weights,
            metrics=metrics,
            validation_fraction=validation_fraction,
        ),
        "model_defaults": model,
        "data_defaults": _fields(data, "data", owner, ("data_dir",)) if inspect.isroutine(data) else {},
        "target": target,
        "higher_is_better": _direction(target, owner) if higher_is_better is None else bool(higher_is_better),
        "evaluates_on": (evaluates_on,) if isinstance(evaluates_on, str) else tuple(evaluates_on),
        "smoke_sizes": dict(quick or {}),
        "quick_model": classmethod(lambda cls, model: dict(quick or {})),
    }
    registry.register(name, type("".join(part.title() for part in str(name).split("_")), (ReadyMade,), attributes))


def _fields(function: Any, what: str, owner: str, without_default: Sequence[str]) -> dict[str, Any]:
    """The arguments of a function that have defaults: fields of the config."""
    if not callable(function) or hasattr(type(function), "trainable_variables"):
        raise InputError(f"{owner}: {what}={function!r}; expected a function that makes it.")
    fields = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) or name in without_default:
            continue
        if not isinstance(parameter.default, _FIELD_TYPES):
            given = "no default" if parameter.default is parameter.empty else f"the default {parameter.default!r}"
            raise InputError(
                f"{owner}: {what}'s argument {name!r} has {given}; expected a number, a text, a truth value or a "
                f"tuple, which becomes a field of the config, or one of the arguments {', '.join(without_default)}."
            )
        fields[name] = parameter.default
    return fields


def _first_metric(metrics: Any, loss: Any, owner: str) -> str:
    if metrics is None and loss is None:
        return "accuracy"
    first = metrics[0] if isinstance(metrics, (list, tuple)) and metrics else metrics
    found = first if isinstance(first, str) else getattr(first, "name", None) or getattr(first, "__name__", None)
    if not found or isinstance(metrics, dict) or inspect.isfunction(metrics):
        raise InputError(f"{owner}: give metrics, and target='...', the name of the one that tells a run's quality.")
    return str(found)


def _direction(target: str, owner: str) -> bool:
    for names, higher in ((_LOWER, False), (_HIGHER, True)):
        if any(name == part or (len(name) > 3 and name in target) for name in names for part in target.split("_")):
            return higher
    raise InputError(f"{owner}: whether a larger {target} is better is unknown; give higher_is_better=True or False.")
