"""What is a matrix: the variables of real layers and of the package's models."""

import keras
import pytest
import tensorflow as tf

from tfbigbatch.models import bert
from tfbigbatch.models.gnmt import gnmt
from tfbigbatch.models.lstm import SequenceLSTM
from tfbigbatch.models.lstm_language_model import lstm_language_model
from tfbigbatch.models.small_classifiers import row_classifier
from tfbigbatch.optimizers import matrices


def paths_and_shapes(model):
    """Of its variables, as the optimizers see them."""
    variables = model.trainable_variables
    paths = [getattr(each, "path", None) or each.name.split(":")[0] for each in variables]
    return paths, [tuple(each.shape) for each in variables]


def found(model, treatments=()):
    """(blocks, rows, columns) by path; None for a vector."""
    paths, shapes = paths_and_shapes(model)
    views = matrices.views(paths, shapes, treatments)
    return {path: view and view.matrix_shape for path, view in zip(paths, views)}


def matrices_of(model, treatments=()):
    """(rows, columns) of the variables that are one matrix each, in the model's order."""
    shapes = [each for each in found(model, treatments).values() if each]
    assert all(blocks == 1 for blocks, *_ in shapes)
    return [(rows, columns) for _, rows, columns in shapes]


# A layer, the shape of its inputs, and its matrices [rows, columns]; all other variables are vectors.
TABLE = {
    "dense": (lambda layers: layers.Dense(6), (4,), [(4, 6)]),
    "one output": (lambda layers: layers.Dense(1), (4,), []),
    "output layer of a vocabulary": (lambda layers: layers.Dense(1000), (16,), []),
    "output layer of few classes": (lambda layers: layers.Dense(1000), (160,), [(160, 1000)]),
    "conv1d": (lambda layers: layers.Conv1D(5, 3), (9, 4), [(12, 5)]),
    "conv2d": (lambda layers: layers.Conv2D(5, (3, 2)), (9, 9, 4), [(24, 5)]),
    "conv2d named as a query": (lambda layers: layers.Conv2D(5, 1, name="query"), (9, 9, 4), [(4, 5)]),
    "transposed": (lambda layers: layers.Conv2DTranspose(5, 3), (9, 9, 4), [(4, 45)]),
    "grouped": (lambda layers: layers.Conv2D(8, 3, groups=2), (9, 9, 4), [(18, 8)]),
    "depthwise": (lambda layers: layers.DepthwiseConv2D(3, depth_multiplier=2), (9, 9, 4), []),
    "separable": (lambda layers: layers.SeparableConv2D(5, 3, depth_multiplier=2), (9, 9, 4), [(8, 5)]),
    "lstm": (lambda layers: layers.LSTM(6), (9, 4), [(4, 24), (6, 24)]),
    "gru": (lambda layers: layers.GRU(6), (9, 4), [(4, 18), (6, 18)]),
    "both directions": (lambda layers: layers.Bidirectional(layers.LSTM(6)), (9, 4), [(4, 24), (6, 24)] * 2),
    "convolutional lstm": (lambda layers: layers.ConvLSTM2D(6, 3), (3, 9, 9, 4), [(36, 24), (54, 24)]),
    "dense over axes": (
        lambda layers: layers.EinsumDense("abc,cde->abde", (None, 2, 3), bias_axes="de", name="qkv"), (9, 4), [(4, 6)]
    ),
    "norm over two axes": (lambda layers: layers.LayerNormalization(axis=[1, 2]), (9, 4), []),
}  # fmt: skip


def sequential(make, shape):
    """The layer in a model with a name that means nothing."""
    layers = keras.layers
    return keras.Sequential([layers.Input(shape), make(layers)], name="embedding_depthwise_query")


@pytest.mark.parametrize("kind", TABLE)
def test_layers(kind):
    make, shape, expected = TABLE[kind]
    assert matrices_of(sequential(make, shape)) == expected


def test_embeddings_are_vectors():
    model = keras.Sequential([keras.layers.Embedding(30, 4)])
    model.build((None, 3))
    assert matrices_of(model) == []
    assert matrices_of(model, [("embedding", "matrix")]) == [(30, 4)]


def attention(**arguments):
    layer = keras.layers.MultiHeadAttention(2, 3, **arguments)
    layer(tf.zeros([1, 9, 4]), tf.zeros([1, 9, 4]))
    return layer


def test_attention():
    """Biases [heads, size] are vectors; the output's kernel has the heads in its rows."""
    layer = attention(value_dim=5)
    assert matrices_of(layer) == [(4, 6), (4, 6), (4, 10), (10, 4)]
    by_head = [each for each in found(layer, [("attention", "heads")]).values() if each]
    assert by_head == [(2, 4, 3), (2, 4, 3), (2, 4, 5), (2, 5, 4)]


def test_gates_groups_and_channels_by_pattern():
    def with_treatment(kind, treatment):
        return [each for each in found(sequential(*TABLE[kind][:2]), [(".", treatment)]).values() if each]

    assert with_treatment("lstm", "gates") == [(4, 4, 6), (4, 6, 6)]
    assert with_treatment("gru", "gates") == [(3, 4, 6), (3, 6, 6)]
    assert with_treatment("convolutional lstm", "gates") == [(4, 36, 6), (4, 54, 6)]
    assert with_treatment("grouped", "groups:2") == [(2, 18, 4)]
    assert with_treatment("depthwise", "in:0,1 out:3") == [(4, 9, 2)]
    assert with_treatment("one output", "matrix") == [(1, 4, 1)]
    assert with_treatment("dense", "vector") == []


def test_lstm_models_of_the_package():
    language = lstm_language_model(vocabulary_size=1000, window=6, hidden_units=5, embedding_units=3, layers=2)
    # Neither the embedding nor the softmax over the vocabulary.
    assert matrices_of(language) == [(3, 20), (5, 20), (5, 20), (5, 20)]
    assert matrices_of(language, [("logits/kernel", "matrix")])[-1] == (5, 1000)
    classifier = row_classifier(shape=(8, 8), classes=10, brightest=16.0, hidden_units=64)
    assert matrices_of(classifier) == [(8, 256), (64, 256), (64, 10)]
    layer = SequenceLSTM(4)
    layer(tf.zeros([1, 5, 2]))
    assert [each for each in found(layer, [(".", "gates")]).values() if each] == [(4, 2, 4), (4, 4, 4)]


def test_gnmt():
    network = gnmt(
        vocabulary_size=1000, hidden_units=8, embedding_units=4, initial_scale=0.1, encoder_layers=1, decoder_layers=1
    )
    matrices_by_path = found(network)
    paths, shapes = paths_and_shapes(network)
    # A cell's input kernel is no output layer, whatever its sides.
    assert {path for path, shape in zip(paths, shapes) if len(shape) > 1 and not matrices_by_path[path]} == {
        "embedding/embeddings",
        "classifier/kernel",
    }


def test_bert_of_tf_models_official():
    network = bert.pretrainer(vocabulary_size=1000, layers=1, hidden_units=8, heads=2, inner_units=12, max_positions=16)
    # Three embeddings, one of them the output layer too, and biases [heads, size] are vectors.
    layer = [(8, 8)] * 4 + [(8, 12), (12, 8)]
    assert matrices_of(network) == [*layer, (8, 8), (8, 8), (8, 2)]
    by_head = found(network, [("self_attention", "heads")])
    assert [each for path, each in by_head.items() if "self_attention" in path and each] == [(2, 8, 4)] * 3 + [
        (2, 4, 8)
    ]


# The equation of a layer, its output's shape, the shape of its input, and its matrices.
EQUATIONS = {
    "a query of KerasHub's Gemma": ("btd,ndh->btnh", (None, 2, 5), (9, 4), (1, 4, 10)),
    "an output of KerasHub's Gemma": ("btnh,nhd->btd", (None, 4), (9, 2, 5), (1, 10, 4)),
    "a query of Keras": ("abc,cde->abde", (None, 2, 5), (9, 4), (1, 4, 10)),
    "experts": ("becd,edf->becf", (3, None, 5), (3, 9, 4), (3, 4, 5)),
    "inputs last": ("...x,yx->...y", 5, (9, 4), (1, 4, 5)),
}


@pytest.mark.parametrize("name", EQUATIONS)
def test_an_equation_tells_the_axes(name):
    equation, output, shape, expected = EQUATIONS[name]
    layers = keras.layers
    layer = layers.EinsumDense(equation, output, name="query")
    model = keras.Sequential([layers.Input(shape), layer, layers.Dense(7, name="after")])
    [(pattern, treatment)] = matrices.einsum_treatments(model)
    assert [each for each in found(model, [(pattern, treatment)]).values() if each][0] == expected
