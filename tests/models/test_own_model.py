"""A user's model: of Keras 3, on TensorFlow, with the paths of a new process."""

import keras
import pytest
import tf_keras

from tfbigbatch.errors import InputError
from tfbigbatch.models import own_model


def made(module=keras):
    return module.Sequential([module.layers.Input((2,)), module.layers.Dense(3), module.layers.Dense(1)])


def test_it_is_returned_as_it_is():
    model = made()
    assert own_model.checked(model, "network()") is model


@pytest.mark.parametrize(
    "given, message",
    [
        (lambda: made(tf_keras), r"network\(\) returned Sequential of tf_keras .* expected a keras.Model of Keras 3"),
        (lambda: keras.layers.Dense(2), r"network\(\) returned Dense; expected a keras.Model"),
        (lambda: None, r"network\(\) returned NoneType; expected a keras.Model"),
    ],
)
def test_what_is_none_is_refused(given, message):
    with pytest.raises(InputError, match=message):
        own_model.checked(given(), "network()")


def test_another_backend_is_refused(monkeypatch):
    model = made()
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(InputError, match="a model on jax; expected TensorFlow. Set .* KERAS_BACKEND=tensorflow"):
        own_model.checked(model, "network()")


def test_fresh_names_are_those_of_a_new_process():
    paths = []
    for _ in range(2):
        own_model.fresh_names()
        paths.append([each.path for each in made().weights])
    assert paths[0] == paths[1] and paths[0][::2] == ["sequential/dense/kernel", "sequential/dense_1/kernel"]
