"""Loads BERT checkpoints: Google's, tf-models-official's, Hugging Face's safetensors, and those of our own runs."""

from __future__ import annotations

import glob
import json
import os
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import trackable_object_graph_pb2

from tfbigbatch.errors import InputError, first_line
from tfbigbatch.utils.files import check_regular, open_regular, reading_errors
from tfbigbatch.utils.home import expanded
from tfbigbatch.utils.tensorflow_paths import literal_path

_FILES = ("model.safetensors", "bert_model.ckpt")
_SAFETENSORS_TYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": np.uint16, "I64": np.int64}
# Patterns of our variables' paths, which end as tf-models-official's names, and Google's names.
_LAYER = r"bert/encoder/layer_\1"
_NAMES = (
    (r"(word|position)_embeddings?/embeddings", r"bert/embeddings/\1_embeddings"),
    (r"type_embeddings/embeddings", r"bert/embeddings/token_type_embeddings"),
    (r"embeddings/layer_norm/(.*)", r"bert/embeddings/LayerNorm/\1"),
    (r"pooler_transform/(.*)", r"bert/pooler/dense/\1"),
    (r"transformer/layer_(\d+)/self_attention/attention_output/(.*)", rf"{_LAYER}/attention/output/dense/\2"),
    (r"transformer/layer_(\d+)/self_attention/(.*)", rf"{_LAYER}/attention/self/\2"),
    (r"transformer/layer_(\d+)/self_attention_layer_norm/(.*)", rf"{_LAYER}/attention/output/LayerNorm/\2"),
    (r"transformer/layer_(\d+)/(intermediate|output)/(.*)", rf"{_LAYER}/\2/dense/\3"),
    (r"transformer/layer_(\d+)/output_layer_norm/(.*)", rf"{_LAYER}/output/LayerNorm/\2"),
    (r"transform/((?:dense|LayerNorm)/.*)", r"cls/predictions/transform/\1"),
    (r"output_bias/bias", r"cls/predictions/output_bias"),
    (r"next_sentence_head/kernel", r"cls/seq_relationship/output_weights"),
    (r"next_sentence_head/bias", r"cls/seq_relationship/output_bias"),
)
# Where a checkpoint by objects keeps these, and what of a run's is no weight.
_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_NOT_WEIGHTS = ("optimizer/", "averages/")
_OUTPUTS_FIRST = "cls/seq_relationship/output_weights"
# Patterns of Hugging Face's names, with slashes for dots, and Google's names.
_HUGGING_FACE = (
    (r"encoder/layer/(\d+)/", r"encoder/layer_\1/"),
    (r"LayerNorm/weight$", r"LayerNorm/gamma"),
    (r"LayerNorm/bias$", r"LayerNorm/beta"),
    (r"(embeddings/\w+_embeddings)/weight$", r"\1"),
    (r"^cls/predictions/bias$", r"cls/predictions/output_bias"),
    (r"^cls/seq_relationship/weight$", _OUTPUTS_FIRST),
    (r"^cls/seq_relationship/bias$", r"cls/seq_relationship/output_bias"),
)


def read(path: str) -> dict[str, np.ndarray]:
    """The arrays of a checkpoint, by Google's names; kernels are [inputs, outputs], of attention perhaps with its heads
    in an axis of their own.

    Args:
      path: the prefix of a checkpoint of TensorFlow ('.../bert_model.ckpt'), by names as Google's or by objects as
        tf-models-official's; a safetensors file; a folder with one of them under its usual name; or a run directory,
        for its newest checkpoint.

    Returns:
      Dictionary from names such as 'bert/encoder/layer_0/output/dense/kernel' to NumPy arrays.

    Raises:
      ValueError: there is no such checkpoint, or it is damaged.
    """
    path = expanded(path)
    newest = _newest(os.path.join(path, "checkpoints"))
    if os.path.isdir(path) and not newest:
        inside = [os.path.join(path, name) for name in _FILES]
        found = [name for name in inside if os.path.isfile(name) or os.path.isfile(f"{name}.index")]
        if not found:
            raise InputError(
                f"{path} holds no checkpoint of BERT: neither {_FILES[0]} nor {_FILES[1]}.index, nor a run's."
            )
        path = found[0]
    if newest or os.path.isfile(f"{path}.index"):
        return _tensorflow(newest or path)
    if os.path.isfile(path):
        return _hugging_face(path)
    raise InputError(
        f"{path}: no such checkpoint, neither a safetensors file nor the prefix of a TensorFlow checkpoint."
    )


def _newest(folder: str) -> str | None:
    """The newest checkpoint of a run; None where the folder has none."""
    names = os.listdir(folder) if os.path.isdir(folder) else []
    steps = [int(found[1]) for found in (re.fullmatch(r"step-(\d+)\.index", name) for name in names) if found]
    return os.path.join(folder, f"step-{max(steps)}") if steps else None


def assign(network: Any, arrays: Mapping[str, np.ndarray], source: str = "the checkpoint") -> list[str]:
    """Assigns a checkpoint's values to a network's variables; on an error, none of them.

    Args:
      network: a keras.Model with a `bert.Encoder`.
      arrays: the result of `read`.
      source: for errors.

    Returns:
      The paths of the variables that the checkpoint does not have, which are left unchanged: the heads.

    Raises:
      ValueError: the checkpoint lacks a variable of the encoder, or its shape differs.
    """
    values: list[tuple[Any, np.ndarray]] = []
    missing: list[str] = []
    for variable in network.weights:
        name = variable.path
        theirs = google_name(name)
        if theirs is None or theirs not in arrays:
            if name.startswith("encoder/"):
                raise InputError(f"{source} has no {theirs}, for {name}: it is of a smaller model, or of no BERT.")
            missing.append(name)
            continue
        value = arrays[theirs].T if theirs == _OUTPUTS_FIRST else arrays[theirs]
        # Google's matrices have all heads in one axis, our own have an axis for the heads.
        of_heads = "/self_attention/" in name and value.size == np.prod(variable.shape)
        if value.shape != tuple(variable.shape) and not of_heads:
            raise InputError(
                f"{source}: {theirs} has the shape {value.shape}, and {name} {tuple(variable.shape)}. Set the model's "
                "fields to those of the checkpoint."
            )
        values.append((variable, value.reshape(variable.shape)))
    for variable, value in values:
        variable.assign(value)
    return missing


def google_name(path: str) -> str | None:
    """Google's name for a variable of ours or of tf-models-official; None where it has none."""
    for pattern, theirs in _NAMES:
        if found := re.fullmatch(rf"(?:.*/)?{pattern}", path):
            return found.expand(theirs)
    return None


def _tensorflow(prefix: str) -> dict[str, np.ndarray]:
    """The arrays of a checkpoint of TensorFlow, by names or by objects, without those of an optimizer."""
    # TensorFlow would wait at a pipe, and read a device without end.
    for path in glob.glob(f"{glob.escape(prefix)}.*"):
        with reading_errors(path):
            check_regular(path)
    try:
        reader = tf.train.load_checkpoint(literal_path(prefix))
        names = reader.get_variable_to_shape_map()
        if _GRAPH not in names:
            names = [name for name in names if name.startswith(("bert/", "cls/"))]
            return {name: reader.get_tensor(name) for name in names if not name.endswith(("/adam_m", "/adam_v"))}
        graph = trackable_object_graph_pb2.TrackableObjectGraph.FromString(reader.get_tensor(_GRAPH))
        arrays = {}
        for value in (each for node in graph.nodes for each in node.attributes):
            key = value.checkpoint_key
            if key.startswith(_NOT_WEIGHTS) or ".OPTIMIZER_SLOT" in key:
                continue
            # The variable's name, or the key under which it is stored by its path: TensorFlow escapes the slashes.
            path = key.removesuffix("/.ATTRIBUTES/VARIABLE_VALUE").rsplit("/", 1)[-1].replace(".S", "/")
            theirs = google_name(value.full_name) or google_name(path)
            if theirs is not None:
                array = reader.get_tensor(key)
                arrays[theirs] = array.T if theirs == _OUTPUTS_FIRST else array
        return arrays
    # TensorFlow turns data that ends too soon into Python's own error.
    except (tf.errors.OpError, RuntimeError, ValueError, IndexError, DecodeError) as error:
        raise InputError(f"{prefix} cannot be read as a checkpoint of TensorFlow: {first_line(error)}.") from None


def _hugging_face(path: str) -> dict[str, np.ndarray]:
    arrays = {}
    for name, value in _safetensors(path).items():
        name = name.replace(".", "/")
        if not name.startswith(("bert/", "cls/")):
            name = f"bert/{name}"  # Of the encoder only.
        for pattern, replacement in _HUGGING_FACE:
            name = re.sub(pattern, replacement, name)
        if name.endswith("/weight"):
            name, value = name.removesuffix("weight") + "kernel", value.T
        arrays[name] = value
    return arrays


def _safetensors(path: str) -> dict[str, np.ndarray]:
    """The arrays of a safetensors file: the length of a JSON header, the header, and the arrays' bytes."""
    try:
        with open_regular(path, None) as file:
            length = int.from_bytes(file.read(8), "little")
            if length > os.path.getsize(path):
                raise ValueError("its header would be longer than the file")
            header = json.loads(file.read(length))
            content = file.read()
        arrays = {}
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            begin, end = entry["data_offsets"]
            kind = _SAFETENSORS_TYPES[entry["dtype"]]
            value = np.frombuffer(content[begin:end], np.dtype(kind).newbyteorder("<")).reshape(entry["shape"])
            if entry["dtype"] == "BF16":
                # The upper half of a float32.
                value = (value.astype(np.uint32) << 16).view(np.float32)
            arrays[name] = value.astype(np.float32) if value.dtype.kind == "f" else value
        return arrays
    # RecursionError: brackets nested thousands deep.
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise InputError(f"{path} cannot be read as a safetensors file: {error}.") from None
