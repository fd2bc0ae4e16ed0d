"""What is a matrix: the variables of real layers and of the package's models, in both Kerases."""

import warnings

import pytest
import tensorflow as tf

from tests.helpers.keras_versions import KERAS, KERAS_VERSIONS
from tfbigbatch.models import bert, lstm
from tfbigbatch.models.gnmt.network import gnmt
from tfbigbatch.models.lstm_language_model import lstm_language_model
from tfbigbatch.models.sequence_lstm import SequenceLSTM
from tfbigbatch.optimizers import matrices

both_versions = pytest.mark.parametrize("keras_version", KERAS_VERSIONS)


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
    "dense of few features": (lambda layers: layers.Dense(64), (4,), [(4, 64)]),
    "one output": (lambda layers: layers.Dense(1), (4,), []),
    "output layer of a vocabulary": (lambda layers: layers.Dense(1000), (16,), []),
    "output layer of few classes": (lambda layers: layers.Dense(1000), (160,), [(160, 1000)]),
    "conv1d": (lambda layers: layers.Conv1D(5, 3), (9, 4), [(12, 5)]),
    "conv2d": (lambda layers: layers.Conv2D(5, (3, 2)), (9, 9, 4), [(24, 5)]),
    "conv3d": (lambda layers: layers.Conv3D(5, 2), (9, 9, 9, 4), [(32, 5)]),
    "conv1d named as a key": (lambda layers: layers.Conv1D(5, 3, name="conv_key"), (9, 4), [(12, 5)]),
    "conv2d named as a query": (lambda layers: layers.Conv2D(5, 1, name="query"), (9, 9, 4), [(4, 5)]),
    "transposed": (lambda layers: layers.Conv2DTranspose(5, 3), (9, 9, 4), [(4, 45)]),
    "grouped": (lambda layers: layers.Conv2D(8, 3, groups=2), (9, 9, 4), [(18, 8)]),
    "depthwise": (lambda layers: layers.DepthwiseConv2D(3, depth_multiplier=2), (9, 9, 4), []),
    "depthwise of one": (lambda layers: layers.DepthwiseConv2D(3, name="dw"), (9, 9, 4), []),
    "separable": (lambda layers: layers.SeparableConv2D(5, 3, depth_multiplier=2), (9, 9, 4), [(8, 5)]),
    "lstm": (lambda layers: layers.LSTM(6), (9, 4), [(4, 24), (6, 24)]),
    "lstm of few features": (lambda layers: layers.LSTM(256), (9, 4), [(4, 1024), (256, 1024)]),
    "gru": (lambda layers: layers.GRU(6), (9, 4), [(4, 18), (6, 18)]),
    "simple rnn": (lambda layers: layers.SimpleRNN(6), (9, 4), [(4, 6), (6, 6)]),
    "both directions": (lambda layers: layers.Bidirectional(layers.LSTM(6)), (9, 4), [(4, 24), (6, 24)] * 2),
    "convolutional lstm": (lambda layers: layers.ConvLSTM2D(6, 3), (3, 9, 9, 4), [(36, 24), (54, 24)]),
    "dense over axes": (
        lambda layers: layers.EinsumDense("abc,cde->abde", (None, 2, 3), bias_axes="de", name="qkv"), (9, 4), [(4, 6)]
    ),
    "norm over two axes": (lambda layers: layers.LayerNormalization(axis=[1, 2]), (9, 4), []),
    "slopes": (lambda layers: layers.PReLU(), (9, 4), []),
    "patch embedding": (lambda layers: layers.Dense(6, name="patch_embedding"), (4,), [(4, 6)]),
}  # fmt: skip


def sequential(keras_version, make, shape):
    """The layer in a model with a name that means nothing."""
    layers = KERAS[keras_version].layers
    return KERAS[keras_version].Sequential([layers.Input(shape), make(layers)], name="embedding_depthwise_query")


@both_versions
@pytest.mark.parametrize("kind", TABLE)
def test_layers(keras_version, kind):
    make, shape, expected = TABLE[kind]
    assert matrices_of(sequential(keras_version, make, shape)) == expected


@both_versions
def test_embeddings_are_vectors(keras_version):
    model = KERAS[keras_version].Sequential([KERAS[keras_version].layers.Embedding(30, 4)])
    model.build((None, 3))
    assert matrices_of(model) == []
    assert matrices_of(model, [("embedding", "matrix")]) == [(30, 4)]


def attention(keras_version, **arguments):
    layer = KERAS[keras_version].layers.MultiHeadAttention(2, 3, **arguments)
    layer(tf.zeros([1, 9, 4]), tf.zeros([1, 9, 4]))
    return layer


@both_versions
def test_attention(keras_version):
    """Biases [heads, size] are vectors; the output's kernel has the heads in its rows."""
    layer = attention(keras_version, value_dim=5)
    assert matrices_of(layer) == [(4, 6), (4, 6), (4, 10), (10, 4)]
    by_head = [each for each in found(layer, [("attention", "heads")]).values() if each]
    assert by_head == [(2, 4, 3), (2, 4, 3), (2, 4, 5), (2, 5, 4)]


@both_versions
def test_gates_groups_and_channels_by_pattern(keras_version):
    def with_treatment(kind, treatment):
        return [
            each for each in found(sequential(keras_version, *TABLE[kind][:2]), [(".", treatment)]).values() if each
        ]

    assert with_treatment("lstm", "gates") == [(4, 4, 6), (4, 6, 6)]
    assert with_treatment("gru", "gates") == [(3, 4, 6), (3, 6, 6)]
    assert with_treatment("convolutional lstm", "gates") == [(4, 36, 6), (4, 54, 6)]
    assert with_treatment("grouped", "groups:2") == [(2, 18, 4)]
    assert with_treatment("depthwise", "depthwise") == [(4, 9, 2)]
    # One column a channel: a direction of its own, where a pattern asks for it.
    assert with_treatment("depthwise of one", "depthwise") == [(4, 9, 1)]
    assert with_treatment("one output", "matrix") == [(1, 4, 1)]
    assert with_treatment("conv2d", "rows:1") == [(1, 3, 40)]
    assert with_treatment("dense", "vector") == []


def test_lstm_models_of_the_package():
    language = lstm_language_model(vocabulary_size=1000, window=6, hidden_units=5, embedding_units=3, layers=2)
    # Neither the embedding nor the softmax over the vocabulary.
    assert matrices_of(language) == [(3, 20), (5, 20), (5, 20), (5, 20)]
    assert matrices_of(language, [("logits/kernel", "matrix")])[-1] == (5, 1000)
    classifier = lstm.row_classifier(shape=(8, 8), classes=10, brightest=16.0, hidden_units=64)
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


@pytest.mark.parametrize(
    "path, shape, treatment, said",
    [
        ("dense/kernel", (4, 6), "gates", r"'dense/kernel' of shape \(4, 6\); expected the kernel or recurrent_kernel"),
        ("dense/kernel", (4, 6), "heads", r"expected a kernel \[in, heads, size\] or \[heads, size, out\]"),
        ("dense/kernel", (4, 6), "depthwise", r"expected a depthwise kernel \[h, w, in, multiplier\]"),
        ("conv/kernel", (3, 3, 4, 6), "groups:4", "expected a kernel with a multiple of 4 outputs"),
        ("dense/kernel", (4, 6), "rows:2", "expected a kernel of more than 2 axes"),
    ],
)
def test_a_treatment_that_does_not_fit_is_an_error(path, shape, treatment, said):
    with pytest.raises(ValueError, match=f"matrices: the treatment '{treatment}' does not fit .*{said}.* Narrow"):
        matrices.views([path], [shape], [("kernel", treatment)])


def test_a_pattern_that_changes_nothing_warns():
    paths, shapes = ["lstm/lstm_cell/kernel", "lstm/lstm_cell/bias"], [(4, 24), (24,)]
    with pytest.warns(
        UserWarning, match="matrices: 'lstn' matches none of the 2 variables, so it changes nothing.*lstm"
    ):
        matrices.warn_of_idle([("lstn", "vector")], paths, shapes)
    # A bias is a vector in any case.
    with pytest.warns(UserWarning, match="matrices: 'bias' matches none of the 1 variables"):
        matrices.warn_of_idle([("bias", "matrix")], paths, shapes)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        matrices.warn_of_idle([("lstm", "gates"), ("kernel", "vector")], paths, shapes)


# The equation of a layer, its output's shape, the shape of its input, and its matrices.
EQUATIONS = {
    "a query of KerasHub's Gemma": ("btd,ndh->btnh", (None, 2, 5), (9, 4), (1, 4, 10)),
    "an output of KerasHub's Gemma": ("btnh,nhd->btd", (None, 4), (9, 2, 5), (1, 10, 4)),
    "a query of Keras": ("abc,cde->abde", (None, 2, 5), (9, 4), (1, 4, 10)),
    "experts": ("becd,edf->becf", (3, None, 5), (3, 9, 4), (3, 4, 5)),
    "inputs last": ("...x,yx->...y", 5, (9, 4), (1, 4, 5)),
}


@both_versions
@pytest.mark.parametrize("name", EQUATIONS)
def test_an_equation_tells_the_axes(keras_version, name):
    equation, output, shape, expected = EQUATIONS[name]
    layers = KERAS[keras_version].layers
    layer = layers.EinsumDense(equation, output, name="query")
    model = KERAS[keras_version].Sequential([layers.Input(shape), layer, layers.Dense(7, name="after")])
    [(pattern, treatment)] = matrices.einsum_treatments(model)
    assert [each for each in found(model, [(pattern, treatment)]).values() if each][0] == expected


GEMMA = [f"block_{number}/query/kernel" for number in range(3)], 3 * [(8, 256, 16)]
# Paths and shapes that are read right, whatever their sides.
USUAL = {
    "a head of few classes": ("head/kernel", (784, 10)),
    "a convolution by another name": ("stem/kernel", (3, 3, 512, 8)),
    "a convolution of one axis": ("conv1d/kernel", (5, 512, 8)),
    "a query of Keras": ("query/kernel", (128, 8, 16)),
    "a vector in any order": ("layer_scale", (1, 1, 512)),
    "positions": ("position_embedding/embeddings", (1, 512, 8)),
}


def test_a_long_matrix_warns_once_with_what_to_pass():
    with pytest.warns(UserWarning) as caught:
        matrices.warn_of_long(*GEMMA)
    [message] = [str(each.message) for each in caught]
    assert "'block_0/query/kernel' of shape (8, 256, 16) as 1 x [8, 4,096] and 2 more" in message
    assert "'in:1 out:0,2'" in message and "einsum_treatments(model)" in message
    with pytest.warns(UserWarning, match=r"1 x \[1, 4,096\]"):
        matrices.warn_of_long(["key/kernel"], [(1, 256, 16)])
    with pytest.warns(UserWarning, match=r"1 x \[2,048, 16\]"):
        matrices.warn_of_long(*GEMMA, [("query", "rows:2")])


@pytest.mark.parametrize("kind", USUAL)
def test_usual_kernels_do_not_warn(kind):
    path, shape = USUAL[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        matrices.warn_of_long([path], [shape])
