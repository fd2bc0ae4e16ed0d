"""A .keras file of tf_keras as a model: read by an allow-list, as a description of a network can name any function."""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
from collections.abc import Iterator
from typing import Any

import h5py
import tf_keras

from tfbigbatch.errors import InputError, first_line
from tfbigbatch.utils import files

_DESCRIPTION, _WEIGHTS = "config.json", "model.weights.h5"
_MOST_TEXT = 2**26
# Keras stores the weights as they are; what is packed to less than this share of its size is a trap for the disk.
_LEAST_PACKED = 1 / 16
# The layers that a file may hold: none of them takes a function, a path or the name of an operation.
_LAYERS = """
    ActivityRegularization Activation Add AdditiveAttention AlphaDropout Attention Average AveragePooling1D
    AveragePooling2D AveragePooling3D BatchNormalization Bidirectional CenterCrop Concatenate Conv1D Conv1DTranspose
    Conv2D Conv2DTranspose Conv3D Conv3DTranspose ConvLSTM1D ConvLSTM2D ConvLSTM3D Cropping1D Cropping2D Cropping3D
    Dense DepthwiseConv1D DepthwiseConv2D Dot Dropout EinsumDense ELU Embedding Flatten GaussianDropout GaussianNoise
    GlobalAveragePooling1D GlobalAveragePooling2D GlobalAveragePooling3D GlobalMaxPooling1D GlobalMaxPooling2D
    GlobalMaxPooling3D GroupNormalization GRU GRUCell Identity InputLayer LayerNormalization LeakyReLU
    LocallyConnected1D LocallyConnected2D LSTM LSTMCell Masking Maximum MaxPooling1D MaxPooling2D MaxPooling3D Minimum
    MultiHeadAttention Multiply Normalization Permute PReLU RandomBrightness RandomContrast RandomCrop RandomFlip
    RandomHeight RandomRotation RandomTranslation RandomWidth RandomZoom ReLU RepeatVector Rescaling Reshape Resizing
    RNN SeparableConv1D SeparableConv2D SimpleRNN SimpleRNNCell Softmax SpatialDropout1D SpatialDropout2D
    SpatialDropout3D SpectralNormalization StackedRNNCells Subtract ThresholdedReLU TimeDistributed UnitNormalization
    UpSampling1D UpSampling2D UpSampling3D ZeroPadding1D ZeroPadding2D ZeroPadding3D
"""
_MODELS = {("keras", "Sequential"), ("tf_keras.src.engine.functional", "Functional")}
# What a layer's description may hold beside layers, by the module that it names.
_PARTS = {
    "keras.initializers": (tf_keras.initializers, tf_keras.initializers.Initializer),
    "keras.regularizers": (tf_keras.regularizers, tf_keras.regularizers.Regularizer),
    "keras.constraints": (tf_keras.constraints, tf_keras.constraints.Constraint),
    "keras.mixed_precision": (tf_keras.mixed_precision, tf_keras.mixed_precision.Policy),
}
# Whose registered classes count: this package, the user's program, and the experiment files that the user named.
_OWN_PACKAGE = "tfbigbatch>"
_OWN_MODULES = ("__main__", "tfbigbatch_experiment_")


def read(path: str) -> tf_keras.Model:
    """The model of a file, with its weights and without its optimizer.

    Nothing of the file but its description and its weights is read, and the description is made into a model only where
    all that it names is allowed.

    Args:
      path: of a file that `tf_keras.Model.save` wrote as `.keras`.

    Raises:
      ValueError: it is something else, damaged, or names what is not allowed.
    """
    with tempfile.TemporaryDirectory() as folder:
        weights = os.path.join(folder, _WEIGHTS)
        described = _unpacked(path, weights)
        try:
            found = sorted(set(refused(described)))
        except RecursionError:
            raise InputError(f"{path} cannot be read: its description is nested too deeply.") from None
        if found:
            raise InputError(
                f"{path} names {', '.join(found)[:200]}: only Keras' layers of fixed computations may be read from a "
                "file, and those that this package, your program or your experiment file registers. Give a checkpoint, "
                "or a .weights.h5 file."
            )
        check_weights(weights, path)
        # Keras raises many kinds for a damaged file.
        try:
            model = tf_keras.saving.deserialize_keras_object(_uncompiled(described), safe_mode=True)
            if isinstance(model, tf_keras.Model):
                model.load_weights(weights)
        except Exception as error:
            raise InputError(f"{path} cannot be read: {first_line(error)}") from None
    if not isinstance(model, tf_keras.Model):
        raise InputError(f"{path} holds a {type(model).__name__}; expected a model.")
    return model


def _unpacked(path: str, weights: str) -> Any:
    """The description in a file; its weights are written to the path `weights`."""
    try:
        with files.open_regular(path, None) as opened, zipfile.ZipFile(opened) as archive:
            description, values = archive.getinfo(_DESCRIPTION), archive.getinfo(_WEIGHTS)
            if description.file_size > _MOST_TEXT or values.compress_size < values.file_size * _LEAST_PACKED:
                raise ValueError("its parts unpack to far more than the file")
            described = json.loads(archive.read(description))
            with archive.open(values) as source, open(weights, "wb") as target:
                left = values.file_size
                while left > 0 and (block := source.read(min(left, 2**20))):
                    left -= len(block)
                    target.write(block)
            return described
    except InputError:
        raise
    # zipfile, zlib and json raise many kinds. An HDF5 file under this name could hold the code of a function.
    except Exception as error:
        raise InputError(f"{path} cannot be read as a .keras file: {first_line(error)}") from None


def check_weights(path: str, shown: str) -> None:
    """Checks that a weights file has its values in itself: HDF5 can refer to any other file.

    Args:
      path: of the HDF5 file.
      shown: its name in errors.

    Raises:
      ValueError: it refers to another file, or is no HDF5 file.
    """
    try:
        with files.open_regular(path, None) as opened, h5py.File(opened, "r") as file:
            other = sorted(_outside(file))
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{shown} cannot be read: {first_line(error)}") from None
    if other:
        raise InputError(f"{shown} takes {', '.join(other)[:200]} from another file; expected the values themselves.")


def _outside(group: h5py.Group) -> Iterator[str]:
    """The names in a group, and in those below it, whose values are elsewhere."""
    for name in group:
        if not isinstance(group.get(name, getlink=True), h5py.HardLink):
            yield f"{group.name}/{name}"
            continue
        found = group[name]
        if isinstance(found, h5py.Group):
            yield from _outside(found)
        elif isinstance(found, h5py.Dataset) and (found.external or found.is_virtual):
            yield f"{group.name}/{name}"


def refused(described: Any) -> Iterator[str]:
    """What a description of a model names and may not, as 'module.name'.

    Args:
      described: from JSON, as Keras serializes a model.
    """
    if isinstance(described, list):
        for part in described:
            yield from refused(part)
    if isinstance(described, dict):
        if "class_name" in described and not _is_allowed(described):
            is_function = described["class_name"] == "function"
            yield f"{described.get('module')}.{described.get('config') if is_function else described['class_name']}"
        for key, part in described.items():
            if key != "compile_config":
                yield from refused(part)


def _is_allowed(described: dict[str, Any]) -> bool:
    module, name, registered = (described.get(key) for key in ("module", "class_name", "registered_name"))
    if not isinstance(module, str) or not isinstance(name, str) or not isinstance(registered, str | None):
        return False
    # Keras looks for a registered class first, and takes the class's name for a missing one.
    if (own := tf_keras.saving.get_registered_object(registered or "")) is not None:
        kinds = (tf_keras.layers.Layer, *(kind for _, kind in _PARTS.values()))
        is_ours = registered is not None and registered.startswith(_OWN_PACKAGE)
        is_users = getattr(own, "__module__", "").startswith(_OWN_MODULES)
        return isinstance(own, type) and issubclass(own, kinds) and (is_ours or is_users)
    if (module, name) in _MODELS:
        return True
    if registered is not None:
        return False
    if module in _PARTS:
        holder, kind = _PARTS[module]
        part = getattr(holder, name, None)
        return isinstance(part, type) and issubclass(part, kind)
    return module == "keras.layers" and name in _LAYERS.split()


def _uncompiled(described: Any) -> Any:
    """The description without losses, metrics and optimizers, which Keras would make of it."""
    if isinstance(described, dict):
        return {key: _uncompiled(part) for key, part in described.items() if key != "compile_config"}
    return [_uncompiled(part) for part in described] if isinstance(described, list) else described
