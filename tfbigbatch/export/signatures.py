"""Serving signatures by task: JPEGs, texts, or arrays in; what the network computes out."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from tfbigbatch import tasks
from tfbigbatch.data.images.jpeg import centre_crops
from tfbigbatch.data.sources.image_folder import decoded
from tfbigbatch.data.translation.manifest import VOCABULARY as TRANSLATION_VOCABULARY
from tfbigbatch.data.translation.vocabulary import BEGIN, END, PAD
from tfbigbatch.export.formats import NotExportable
from tfbigbatch.export.keras_layers import structures
from tfbigbatch.models import gnmt
from tfbigbatch.run_directory.load import LoadedRun
from tfbigbatch.tasks.bert_finetuning import VOCABULARY, FineTuning
from tfbigbatch.tasks.gnmt import Gnmt
from tfbigbatch.tasks.image_classification import ImageClassification, SmallImageClassification
from tfbigbatch.tasks.ready_made import IMAGE_FOLDER, ReadyMade
from tfbigbatch.utils.files import read_json_dictionary

Outputs = dict[str, tf.Tensor]
Served = tuple[Any, str]
"""A tf.function with its input signature, from named tensors to named tensors; and a sentence on what they are."""


def write_saved_model(run: LoadedRun, path: str, classes: list[str] | None) -> str:
    """Writes a SavedModel with the signature 'serving_default'; returns a sentence on what that takes and gives.

    Args:
      run: the loaded run.
      path: of the folder.
      classes: names of the classes, by index; None where they are not known.
    """
    function, description = _served(run, classes)
    module = tf.Module()
    # TensorFlow's variables alone: a Keras model would be saved with all its layers' functions, traced once more.
    module.variables_ = [variable.value for variable in run.network.variables]
    module.serve = function
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    tf.saved_model.save(module, path, signatures={"serving_default": function}, options=options)
    return description


def _served(run: LoadedRun, classes: list[str] | None) -> Served:
    task = tasks.get(run.config.task)
    if os.path.exists(os.path.join(run.directory, IMAGE_FOLDER)) and issubclass(task, ReadyMade):
        return _image_folder(run, classes, is_classifier=task.definition.loss is None)
    if issubclass(task, ImageClassification):
        return _images(run, classes)
    if issubclass(task, SmallImageClassification):
        return _small_images(run, classes)
    if issubclass(task, Gnmt):
        return _translation(run)
    function, description = _arrays(run)
    if issubclass(task, FineTuning):
        # TensorFlow has no operation for WordPiece's vocabularies.
        description += (
            f" It takes token ids, not text. Encode texts with the run's {VOCABULARY}, tfbigbatch.data.tokenizer and "
            "tfbigbatch.data.finetuning.text_pairs."
        )
    return function, description


def _images(run: LoadedRun, classes: list[str] | None) -> Served:
    size, fraction = run.config.model.image_size, run.config.data.central_fraction

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "jpeg")])
    def serve(jpeg: tf.Tensor) -> Outputs:
        images = centre_crops(jpeg, image_size=size, central_fraction=fraction)
        return _classified(run.network(images, training=False), classes)

    return (
        serve,
        f"takes 'jpeg', the bytes of JPEG files, [n]; crops and resizes them as the run's evaluations do, to {size} "
        f"pixels; gives {_given(classes)}",
    )


def _image_folder(run: LoadedRun, classes: list[str] | None, is_classifier: bool) -> Served:
    """The bytes of images, decoded as `tasks.from_image_folder` does; of an own loss, the outputs as they are."""
    model = run.network
    size = read_json_dictionary(os.path.join(run.directory, IMAGE_FOLDER))["image_size"]

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "image")])
    def serve(image: tf.Tensor) -> Outputs:
        spec = tf.TensorSpec([size, size, 3], tf.float32)
        images = tf.map_fn(lambda encoded: decoded(encoded, size), image, fn_output_signature=spec)
        outputs = model(images, training=False)
        return _classified(outputs, classes) if is_classifier else _named_outputs(model, outputs)

    given = _given(classes) if is_classifier else "the network's outputs."
    return (
        serve,
        "takes 'image', the bytes of JPEG, PNG, GIF or WebP files, [n]; crops and resizes them as the run did, to "
        f"{size} pixels; gives {given}",
    )


def _small_images(run: LoadedRun, classes: list[str] | None) -> Served:
    [spec] = _input_specs(run.network).values()

    @tf.function(input_signature=[spec])
    def serve(images: tf.Tensor) -> Outputs:
        return _classified(run.network(images, training=False), classes)

    shape = ", ".join(map(str, spec.shape[1:]))
    return serve, f"takes 'images', raw pixel values, uint8 [n, {shape}]; gives {_given(classes)}"


def _classified(logits: tf.Tensor, classes: Sequence[str] | None) -> Outputs:
    """The outputs of a classifier's signature: logits, probabilities, the likeliest class, and its name where known."""
    best = tf.argmax(logits, axis=-1, output_type=tf.int32)
    found = {"logits": logits, "probabilities": tf.nn.softmax(logits), "class": best}
    return {**found, "class_name": tf.gather(tf.constant(list(classes)), best)} if classes else found


def _given(classes: Sequence[str] | None) -> str:
    names = "'class' and its 'class_name'" if classes else "'class', its index"
    return f"'logits', 'probabilities' [n, classes], and the likeliest {names}."


def _translation(run: LoadedRun) -> Served:
    """Token ids: TensorFlow has no operation for sentencepiece's."""
    data = run.config.data
    search = {name: data[name] for name in ("beam_size", "length_penalty", "coverage_penalty")}

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32, "source_ids")])
    def serve(source_ids: tf.Tensor) -> Outputs:
        # A row of padding alone is read as one token: a length of 0 has no meaning to the network.
        lengths = tf.maximum(tf.reduce_sum(tf.cast(source_ids != PAD, tf.int32), axis=-1), 1)
        found = gnmt.translate(
            run.network, source_ids, lengths, begin_token=BEGIN, end_token=END, max_length=data.max_decoded, **search
        )
        return {"target_ids": found.tokens}

    return (
        serve,
        f"takes 'source_ids', int32 [n, length]: the ids of each sentence, {END} (end) after them, padded with {PAD}; "
        f"gives 'target_ids' [n, {data.max_decoded}] of a beam search, padded with {END}. It takes ids, not text: "
        "TensorFlow by itself has no operation for sentencepiece's vocabularies. Encode and decode with the run's "
        f"{TRANSLATION_VOCABULARY} and the package sentencepiece.",
    )


def _arrays(run: LoadedRun) -> Served:
    """The network's own inputs and outputs, by name."""
    model = run.network
    specs = _input_specs(model)

    @tf.function
    def serve(**inputs: tf.Tensor) -> Outputs:
        ordered = [inputs[name] for name in specs]
        outputs = model(keras.tree.pack_sequence_as(structures(model)[0], ordered), training=False)
        return _named_outputs(model, outputs)

    function = serve.get_concrete_function(**specs)
    takes = []
    for name, spec in specs.items():
        sizes = ", ".join("n" if size is None else str(size) for size in spec.shape)
        takes.append(f"{name!r} {spec.dtype.name} [{sizes}]")
    gives = ", ".join(map(repr, function.structured_outputs))
    return function, f"takes the network's inputs, {', '.join(takes)}; gives {gives}."


def _input_specs(network: keras.Model) -> dict[str, tf.TensorSpec]:
    """A spec for each input of a functional model, in the order of `keras.tree.flatten`.

    Their names are the keys of a dictionary of inputs, else those of the input layers, of letters, digits and '_'.

    Raises:
      ValueError: the model is subclassed, or two inputs have one name.
    """
    inputs = structures(network)[0]
    specs = {}
    for path, tensor in keras.tree.flatten_with_path(inputs):
        name = re.sub(r"\W", "_", path[0] if isinstance(inputs, Mapping) else tensor.name)
        if name in specs:
            raise NotExportable(f"model {network.name!r} has two inputs {name!r}. Rename one.")
        specs[name] = tf.TensorSpec(tensor.shape, tensor.dtype, name)
    return specs


def _named_outputs(network: keras.Model, outputs: Any) -> Outputs:
    """The outputs by their keys in a dictionary, else by layer, with a number where one layer has several."""
    if isinstance(outputs, Mapping):
        return dict(outputs)
    names = [tensor._keras_history.operation.name for tensor in keras.tree.flatten(structures(network)[1])]
    unique = [f"{name}_{names[:at].count(name)}" if names.count(name) > 1 else name for at, name in enumerate(names)]
    return dict(zip(unique, keras.tree.flatten(outputs)))
