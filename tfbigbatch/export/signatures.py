"""Serving signatures by task: JPEGs, texts, or arrays in; what the network computes out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from tfbigbatch import tasks
from tfbigbatch.data.images import jpeg
from tfbigbatch.export.keras3_layers import NotConvertible
from tfbigbatch.runs.load import LoadedRun
from tfbigbatch.tasks.image_classification import ImageClassification
from tfbigbatch.tasks.small_images import SmallImageClassification

Outputs = dict[str, tf.Tensor]


@dataclasses.dataclass(frozen=True)
class Served:
    """A serving function.

    Attributes:
      function: a tf.function with its input signature, from named tensors to named tensors.
      description: what it takes and gives, in a sentence.
      parts: trackables that the function uses beside the network's variables, such as lookup tables.
    """

    function: Any
    description: str
    parts: Sequence[Any] = ()


def of_run(run: LoadedRun, classes: list[str] | None) -> Served:
    """The serving function of a run's network.

    Args:
      run: the loaded run.
      classes: names of the classes, by index; None where they are not known.
    """
    task = tasks.get(run.config.task)
    for kind, build in _OF_TASKS.items():
        if issubclass(task, kind):
            return build(run, classes)
    return _arrays(run, classes)


def _images(run: LoadedRun, classes: list[str] | None) -> Served:
    size, share = run.config.model.image_size, run.config.data.central_share

    def decode(encoded: tf.Tensor) -> tf.Tensor:
        return jpeg.centre_crop(encoded, image_size=size, central_share=share)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "jpeg")])
    def serve(jpeg: tf.Tensor) -> Outputs:
        images = tf.map_fn(decode, jpeg, fn_output_signature=tf.TensorSpec([size, size, 3], tf.uint8))
        return classified(run.network(images, training=False), classes)

    return Served(
        serve,
        f"takes 'jpeg', the bytes of JPEG files, [n]; crops and resizes them as the run's evaluations do, to {size} "
        f"pixels; gives {_given(classes)}",
    )


def _small_images(run: LoadedRun, classes: list[str] | None) -> Served:
    [spec] = _input_specs(run.network).values()

    @tf.function(input_signature=[spec])
    def serve(images: tf.Tensor) -> Outputs:
        return classified(run.network(images, training=False), classes)

    shape = ", ".join(map(str, spec.shape[1:]))
    return Served(serve, f"takes 'images', raw pixel values, uint8 [n, {shape}]; gives {_given(classes)}")


def classified(logits: tf.Tensor, classes: Sequence[str] | None) -> Outputs:
    """What a classifier's signature gives: logits, probabilities, the likeliest class, and its name where known."""
    best = tf.argmax(logits, axis=-1, output_type=tf.int32)
    found = {"logits": logits, "probabilities": tf.nn.softmax(logits), "class": best}
    return {**found, "class_name": tf.gather(tf.constant(list(classes)), best)} if classes else found


def _given(classes: Sequence[str] | None) -> str:
    names = "'class' and its 'class_name'" if classes else "'class', its index"
    return f"'logits', 'probabilities' [n, classes], and the likeliest {names}."


def _arrays(run: LoadedRun, classes: list[str] | None) -> Served:
    """The network's own inputs and outputs, by name."""
    del classes
    model = run.network
    specs = _input_specs(model)

    @tf.function
    def serve(**inputs: tf.Tensor) -> Outputs:
        ordered = [inputs[name] for name in specs]
        outputs = model(tf.nest.pack_sequence_as(model.input, ordered), training=False)
        return _named_outputs(model, outputs)

    function = serve.get_concrete_function(**specs)
    takes = ", ".join(f"{name!r} {spec.dtype.name} {_shape(spec.shape)}" for name, spec in specs.items())
    gives = ", ".join(map(repr, function.structured_outputs))
    return Served(function, f"takes the network's inputs, {takes}; gives {gives}.")


def _shape(shape: tf.TensorShape) -> str:
    return "[" + ", ".join("n" if size is None else str(size) for size in shape) + "]"


def _input_specs(network: Any) -> dict[str, tf.TensorSpec]:
    """A spec for each input of a functional model, by name, in the order of `tf.nest.flatten`.

    Raises:
      ValueError: the model is not functional.
    """
    inputs = getattr(network, "input", None)
    if inputs is None:
        raise NotConvertible(
            f"model {network.name!r} ({type(network).__name__}) is not a functional model: the shapes of its inputs "
            "are not known. Build it with Model(inputs, outputs)."
        )
    names = _names(inputs, network.input_names)
    return {name: tf.TensorSpec(x.shape, x.dtype, name) for name, x in zip(names, tf.nest.flatten(inputs))}


def _names(structure: Any, names: Sequence[str]) -> list[str]:
    # tf.nest flattens a dictionary by its sorted keys.
    return sorted(structure) if isinstance(structure, Mapping) else list(names)


def _named_outputs(network: Any, outputs: Any) -> Outputs:
    if isinstance(outputs, Mapping):
        return dict(outputs)
    return dict(zip(_unique(network.output_names), tf.nest.flatten(outputs)))


def _unique(names: Sequence[str]) -> list[str]:
    """The names, with a number where one repeats: a layer with several outputs gives each the same name."""
    return [f"{name}_{names[:at].count(name)}" if names.count(name) > 1 else name for at, name in enumerate(names)]


_OF_TASKS: dict[type, Callable[[LoadedRun, list[str] | None], Served]] = {
    ImageClassification: _images,
    SmallImageClassification: _small_images,
}
