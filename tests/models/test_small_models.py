"""The small classifiers' published sizes, what every network refuses, and dropout."""

import numpy as np
import pytest
import tensorflow as tf

from tfbigbatch.models import bert, resnet, sizes, small_classifiers
from tfbigbatch.models.alexnet import alexnet
from tfbigbatch.models.beam_search import beam_search
from tfbigbatch.models.gnmt import gnmt
from tfbigbatch.models.lstm_language_model import lstm_language_model

MNIST = {"shape": (28, 28), "classes": 10, "brightest": 255}
LSTM_SIZES = {**MNIST, "hidden_units": 128, "projection_units": 128}
# The dense half of LeCun et al.'s own count of LeNet-5; their second convolution saw some of the maps only.
PUBLISHED = [
    (small_classifiers.lenet, MNIST, 61_706, [[5, 5, 1, 6], [5, 5, 6, 16], [400, 120], [120, 84], [84, 10]]),
    (small_classifiers.mnist_cnn, MNIST, 3_274_634, [[5, 5, 1, 32], [5, 5, 32, 64], [7 * 7 * 64, 1024], [1024, 10]]),
    (small_classifiers.row_classifier, LSTM_SIZES, 136_586, [[28, 128], [128, 512], [128, 512], [128, 10]]),
]


@pytest.mark.parametrize("build, fields, parameters, kernels", PUBLISHED)
def test_published_sizes(build, fields, parameters, kernels):
    model = build(**fields)
    logits = model(np.zeros((3, 28, 28), np.uint8))
    assert logits.shape == (3, 10) and logits.dtype == tf.float32 and model.count_params() == parameters
    assert [list(each.shape) for each in model.trainable_variables if "kernel" in each.name] == kernels


ALEXNET = {"image_size": 32, "classes": 10, "stem": "5x5", "width": 12, "fc_units": 64}
RESNET = {"image_size": 32, "classes": 10, "blocks": (2, 2, 2, 2)}
IMAGENET = {"image_size": 224, "classes": 1000}
BERT = {"vocabulary_size": 40, "layers": 2, "hidden_units": 8, "heads": 2, "inner_units": 12, "max_positions": 16}
LANGUAGE = {"vocabulary_size": 11, "window": 6, "hidden_units": 5, "embedding_units": 3, "layers": 2}
GNMT = {"vocabulary_size": 11, "hidden_units": 5, "embedding_units": 4, "encoder_layers": 2, "decoder_layers": 3}
BEAM = {"end_token": 1, "beam_size": 2, "max_length": 3}
search = lambda **options: beam_search(None, None, None, **options)
REFUSED = [
    (alexnet, ALEXNET, {"groups": 0}, "groups=0: expected a whole number of 1 or more"),
    (alexnet, ALEXNET, {"image_size": 14}, "negative"),
    (alexnet, ALEXNET, {"cross_replica_norm": True}, "cross_replica_norm=True, norm='local_response'"),
    (resnet.resnet, RESNET, {"blocks": (2, 0)}, r"blocks\[1\]=0: expected a whole number of 1 or more"),
    (resnet.resnet, RESNET, {"stem": "9x9"}, "model.stem='9x9': expected one of '7x7_pool'"),
    (resnet.cifar_resnet, IMAGENET, {"depth": 18}, r"depth=18: expected 6n \+ 2 layers; the nearest are 14 and 20"),
    (bert.Encoder, BERT, {"heads": 3}, "model.heads=3 does not divide model.hidden_units=8"),
    (bert.Encoder, BERT, {"dropout": 1.5}, "argument `rate`"),
    (sizes.bert_defaults, {}, {"name": "bert_bas"}, "BERT 'bert_bas' is unknown. Did you mean 'bert_base'"),
    (small_classifiers.lenet, MNIST, {"shape": (11, 28)}, "negative"),
    (lstm_language_model, LANGUAGE, {"layers": 0}, "layers=0.*expected"),
    (gnmt, GNMT, {"decoder_layers": 0}, "decoder_layers=0.*expected"),
    (search, BEAM, {"beam_size": 0}, "beam_size=0"),
    (search, BEAM, {"coverage_penalty": 0.1, "source_mask": None}, "coverage_penalty=0.1 needs source_mask"),
]


@pytest.mark.parametrize("build, fields, changed, message", REFUSED)
def test_what_cannot_be_built_is_refused(build, fields, changed, message):
    with pytest.raises(ValueError, match=message):
        build(**{**fields, **changed})


@pytest.mark.parametrize(
    "build, inputs",
    [
        (lambda: alexnet(**ALEXNET), np.arange(3 * 32 * 32 * 3).reshape(3, 32, 32, 3) % 256),
        (lambda: lstm_language_model(**LANGUAGE, dropout=0.5), [tf.ones((2, 6), tf.int32), *[tf.zeros([2, 5])] * 4]),
    ],
)
def test_dropout_is_in_training_only(build, inputs):
    model = build()
    first = lambda **options: tf.nest.flatten(model(inputs, **options))[0]
    np.testing.assert_array_equal(first(), first())
    assert np.abs(first(training=True) - first(training=True)).max() > 0
