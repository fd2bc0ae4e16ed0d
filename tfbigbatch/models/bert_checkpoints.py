"""Loads BERT checkpoints: Google's TF1 `bert_model.ckpt`, Hugging Face's safetensors, and those of our own runs."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import re
from collections.abc import Iterator, Mapping
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
# Their shapes are the sizes of the model.
_MATRICES = (
    "bert/embeddings/word_embeddings",
    "bert/encoder/layer_0/intermediate/dense/kernel",
    "bert/embeddings/position_embeddings",
    "bert/embeddings/token_type_embeddings",
)
_SAFETENSORS_TYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": np.uint16, "I64": np.int64}
# Patterns of our variables' names, and Google's names.
_NAMES = (
    (r"encoder/word_embeddings/embeddings", r"bert/embeddings/word_embeddings"),
    (r"encoder/position_embedding/embeddings", r"bert/embeddings/position_embeddings"),
    (r"encoder/type_embeddings/embeddings", r"bert/embeddings/token_type_embeddings"),
    (r"encoder/embeddings/layer_norm/(.*)", r"bert/embeddings/LayerNorm/\1"),
    (r"encoder/pooler_transform/(.*)", r"bert/pooler/dense/\1"),
    (r"encoder/transformer/layer_(\d+)/self_attention/attention_output/(.*)", r"LAYER/attention/output/dense/\2"),
    (r"encoder/transformer/layer_(\d+)/self_attention/(.*)", r"LAYER/attention/self/\2"),
    (r"encoder/transformer/layer_(\d+)/self_attention_layer_norm/(.*)", r"LAYER/attention/output/LayerNorm/\2"),
    (r"encoder/transformer/layer_(\d+)/intermediate/(.*)", r"LAYER/intermediate/dense/\2"),
    (r"encoder/transformer/layer_(\d+)/output/(.*)", r"LAYER/output/dense/\2"),
    (r"encoder/transformer/layer_(\d+)/output_layer_norm/(.*)", r"LAYER/output/LayerNorm/\2"),
    (r"masked_lm_head/transform/(.*)", r"cls/predictions/transform/\1"),
    (r"masked_lm_head/output_bias/bias", r"cls/predictions/output_bias"),
    (r"next_sentence_head/kernel", r"cls/seq_relationship/output_weights"),
    (r"next_sentence_head/bias", r"cls/seq_relationship/output_bias"),
)
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
      path: the prefix of a TF1 checkpoint ('.../bert_model.ckpt'), a safetensors file, or a folder with one of them
        under its usual name; or a run directory, for its newest checkpoint.

    Returns:
      Dictionary from names such as 'bert/encoder/layer_0/output/dense/kernel' to NumPy arrays.

    Raises:
      ValueError: there is no such checkpoint, or it is damaged or not of a BERT.
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
    if newest:
        arrays = _our_own(newest)
    elif os.path.isfile(f"{path}.index"):
        arrays = _google(path)
    elif os.path.isfile(path):
        arrays = _hugging_face(path)
    else:
        raise InputError(f"{path}: no such checkpoint, neither a safetensors file nor the prefix of a TF1 checkpoint.")
    for name in _MATRICES:
        if name not in arrays:
            raise InputError(f"{path} is no checkpoint of BERT: it has no {name}, but {', '.join(sorted(arrays)[:3])}.")
        if arrays[name].ndim != 2:
            raise InputError(f"{path} is no checkpoint of BERT: {name} has the shape {arrays[name].shape}.")
    return arrays


def _newest(folder: str) -> str | None:
    """The newest checkpoint of a run; None where the folder has none."""
    names = os.listdir(folder) if os.path.isdir(folder) else []
    steps = [int(found[1]) for found in (re.fullmatch(r"step-(\d+)\.index", name) for name in names) if found]
    return os.path.join(folder, f"step-{max(steps)}") if steps else None


def assign(network: Any, arrays: Mapping[str, np.ndarray], source: str = "the checkpoint") -> list[str]:
    """Assigns a checkpoint's values to a network's variables; on an error, none of them.

    Args:
      network: a tf_keras.Model with a `bert.encoder`.
      arrays: the result of `read`.
      source: for errors.

    Returns:
      The names of the variables that the checkpoint does not have, which are left unchanged: the heads.

    Raises:
      ValueError: the checkpoint lacks a variable of the encoder, or its shape differs.
    """
    values: list[tuple[Any, np.ndarray]] = []
    missing: list[str] = []
    for variable in network.variables:
        name = variable.name.split(":")[0]
        theirs = google_name(name)
        if theirs is None or theirs not in arrays:
            if name.startswith("encoder/"):
                raise InputError(f"{source} has no {theirs}, for {name}: it is of a smaller model, or incomplete.")
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


def load_into(network: Any, path: str) -> None:
    """Assigns the values of the checkpoint at `path` to a network, by `read` and `assign`; nothing where it is empty.

    Raises:
      ValueError: as `read` and `assign`.
    """
    if path:
        assign(network, read(path), f"model.init_checkpoint={path}")


def google_name(name: str) -> str | None:
    """Google's name for one of our variables; None where it has none."""
    for pattern, theirs in _NAMES:
        found = re.fullmatch(pattern, name)
        if found:
            return found.expand(theirs.replace("LAYER", r"bert/encoder/layer_\1"))
    return None


@contextlib.contextmanager
def _reader(prefix: str) -> Iterator[Any]:
    """A context with TensorFlow's reader of a checkpoint; raises ValueError for one that is damaged."""
    # TensorFlow would wait at a pipe, and read a device without end.
    for path in glob.glob(f"{glob.escape(prefix)}.*"):
        with reading_errors(path):
            check_regular(path)
    try:
        yield tf.train.load_checkpoint(literal_path(prefix))
    # TensorFlow turns data that ends too soon into Python's own error.
    except (tf.errors.OpError, RuntimeError, ValueError, IndexError, DecodeError) as error:
        raise InputError(f"{prefix} cannot be read as a checkpoint of TensorFlow: {first_line(error)}.") from None


def _our_own(prefix: str) -> dict[str, np.ndarray]:
    """The arrays of a run's checkpoint: TensorFlow stores the variables' names with its own keys."""
    arrays = {}
    with _reader(prefix) as reader:
        graph = trackable_object_graph_pb2.TrackableObjectGraph.FromString(
            reader.get_tensor("_CHECKPOINTABLE_OBJECT_GRAPH")
        )
        for value in (each for node in graph.nodes for each in node.attributes):
            theirs = google_name(value.full_name)
            if theirs is not None and value.checkpoint_key.startswith("network/"):
                array = reader.get_tensor(value.checkpoint_key)
                arrays[theirs] = array.T if theirs == _OUTPUTS_FIRST else array
    return arrays


def _google(prefix: str) -> dict[str, np.ndarray]:
    with _reader(prefix) as reader:
        names = [name for name in reader.get_variable_to_shape_map() if name.startswith(("bert/", "cls/"))]
        # A checkpoint of a training run has the optimizer's state of each variable.
        return {name: reader.get_tensor(name) for name in names if not name.endswith(("/adam_m", "/adam_v"))}


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
