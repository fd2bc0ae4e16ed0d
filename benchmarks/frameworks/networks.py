"""The networks that all frameworks train: sizes, made-up batches and first weights. NumPy alone."""

import dataclasses

import numpy as np

LEARNING_RATE = 1e-3
MOMENTUM = 0.9
ADAMW = {"beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-8, "weight_decay": 0.01}
LABEL_SMOOTHING = 0.1
# ResNet-50 v1.5: blocks and width of each stage.
STAGES = ((3, 64), (4, 128), (6, 256), (3, 512))
CHANNEL_MEANS = (123.68, 116.779, 103.939)
CHANNEL_DEVIATIONS = (58.393, 57.12, 57.375)


@dataclasses.dataclass(frozen=True)
class Network:
    """A network at one batch size and precision.

    Attributes:
      family: 'mnist_lstm', 'lstm_language_model', 'resnet50', 'bert' or 'gnmt'.
      sizes: of the network and of its examples.
      batch_size: examples in a step.
      optimizer: 'momentum' or 'adamw', with the constants above.
      dtype: of the products; weights, optimizer and losses are float32.
    """

    family: str
    sizes: dict
    batch_size: int
    optimizer: str
    dtype: str = "float32"


def _mnist(batch_size, hidden=128, rows=28, columns=28):
    sizes = {"hidden": hidden, "rows": rows, "columns": columns, "classes": 10}
    return Network("mnist_lstm", sizes, batch_size, "momentum")


def _language_model(batch_size, hidden=200, vocabulary=10_000, window=20):
    sizes = {"hidden": hidden, "layers": 2, "vocabulary": vocabulary, "window": window}
    return Network("lstm_language_model", sizes, batch_size, "momentum")


def _resnet50(batch_size, dtype, image_size=224, classes=1000):
    return Network("resnet50", {"image_size": image_size, "classes": classes}, batch_size, "momentum", dtype)


def _bert(batch_size, layers, hidden, heads, vocabulary, length, predictions, dtype="float32"):
    sizes = {"layers": layers, "hidden": hidden, "heads": heads, "vocabulary": vocabulary}
    sizes |= {"length": length, "predictions": predictions, "positions": 512}
    return Network("bert", sizes, batch_size, "adamw", dtype)


def _gnmt(batch_size, hidden=192, vocabulary=4_000, length=20):
    return Network("gnmt", {"hidden": hidden, "vocabulary": vocabulary, "length": length}, batch_size, "adamw")


NETWORKS = {
    "mnist_lstm_128": _mnist(128),
    "mnist_lstm_8192": _mnist(8_192),
    "ptb_small_20": _language_model(20),
    "ptb_small_640": _language_model(640),
    "resnet50_16": _resnet50(16, "float32"),
    "resnet50_16_bfloat16": _resnet50(16, "bfloat16"),
    "bert_wikitext_64": _bert(64, 2, 64, 1, 1_024, 32, 5),
    "bert_4x256_16": _bert(16, 4, 256, 4, 30_522, 128, 20),
    "bert_4x256_64_bfloat16": _bert(64, 4, 256, 4, 30_522, 128, 20, dtype="bfloat16"),
    "gnmt_multi30k_64": _gnmt(64),
    # For the tests.
    "tiny_mnist_lstm": _mnist(4, hidden=8, rows=5, columns=6),
    "tiny_language_model": _language_model(3, hidden=8, vocabulary=50, window=4),
    "tiny_resnet50": _resnet50(2, "float32", image_size=64, classes=10),
    "tiny_bert": _bert(3, 2, 16, 2, 60, 8, 2),
    "tiny_gnmt": _gnmt(3, hidden=8, vocabulary=40, length=5),
}
NAMES = [name for name in NETWORKS if not name.startswith("tiny_")]


def batch(network):
    """A made-up batch, the same in every framework, as a dictionary of NumPy arrays."""
    draw, sizes, n = np.random.RandomState(0), network.sizes, network.batch_size

    def whole(most, *shape, dtype=np.int32):
        return draw.randint(0, most, size=(n, *shape)).astype(dtype)

    if network.family == "mnist_lstm":
        return {
            "images": whole(256, sizes["rows"], sizes["columns"], dtype=np.uint8),
            "labels": whole(sizes["classes"]),
        }
    if network.family == "lstm_language_model":
        tokens = whole(sizes["vocabulary"], sizes["window"] + 1)
        return {"tokens": tokens[:, :-1], "labels": tokens[:, 1:]}
    if network.family == "resnet50":
        return {
            "images": whole(256, sizes["image_size"], sizes["image_size"], 3, dtype=np.uint8),
            "labels": whole(sizes["classes"]),
        }
    if network.family == "bert":
        length, predictions = sizes["length"], sizes["predictions"]
        return {
            "words": whole(sizes["vocabulary"], length),
            "types": np.tile((np.arange(length) >= length // 2).astype(np.int32), (n, 1)),
            "mask": np.ones((n, length), np.int32),
            "masked_positions": np.sort(whole(length, predictions), axis=1),
            "masked_labels": whole(sizes["vocabulary"], predictions),
            "next_labels": whole(2),
        }
    target = whole(sizes["vocabulary"], sizes["length"] + 1)
    return {
        "source": whole(sizes["vocabulary"], sizes["length"]),
        "lengths": np.full(n, sizes["length"], np.int32),
        "target": target[:, :-1],
        "labels": target[:, 1:],
    }


def pattern(shape, vector):
    """First weights that depend on nothing but the shape: frameworks that have them must have the same losses.

    Args:
      shape: as Keras has it, [..., inputs, outputs].
      vector: whether it is a bias, or a scale or shift of a normalisation.
    """
    wave = np.cos(0.7 * np.arange(np.prod(shape, dtype=int)) ** 1.1).astype(np.float32).reshape(shape)
    if vector:
        return 0.3 + 0.1 * wave
    fan_in = np.prod(shape[:-1], dtype=int)
    return wave * np.float32(fan_in**-0.5)
