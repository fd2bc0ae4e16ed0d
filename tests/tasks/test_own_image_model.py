"""Image classifiers of a user, by name, in the task image_classification."""

import numpy as np
import pytest
import tensorflow as tf

from tfbigbatch import models, tasks, train
from tfbigbatch.config import load_config, make_quick
from tfbigbatch.models import image_models

FILE = """
from tfbigbatch import models
from tfbigbatch.config import new_config

def tiny(image_size, classes, width=4):
    import keras
    images = keras.Input((image_size, image_size, 3))
    x = keras.layers.AveragePooling2D(16)(keras.layers.Rescaling(1 / 255)(images))
    x = keras.layers.Dense(width, "relu")(keras.layers.Flatten()(x))
    return keras.Model(images, keras.layers.Dense(classes)(x))

models.register_image_model("tiny", tiny)

def get_config():
    return new_config("image_classification", model="tiny")
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "tiny.py"
    path.write_text(FILE)
    return str(path)


def test_its_arguments_are_fields_of_the_config(file):
    config = load_config(file)
    assert config.model.width == 4 and config.model.name == "tiny" and config.model.image_size == 224
    assert "tiny" in image_models.NAMES and "tiny" in tasks.get("image_classification").models
    network = image_models.build("tiny", image_size=32, classes=5, width=3)
    assert network(np.zeros([2, 32, 32, 3], np.uint8)).shape == (2, 5)


@pytest.mark.slow
def test_it_trains(file, tmp_path):
    config = load_config(file)
    make_quick(config)
    done = train.run_on_made_up_data(config, model_dir=str(tmp_path / "run"))
    assert done["status"] == "done" and done["step"] == 8
    assert tf.io.gfile.exists(str(tmp_path / "run" / "experiment.py"))


@pytest.mark.parametrize(
    "name, function, message",
    [
        *((name, lambda image_size, classes: None, "expected a name in lower case") for name in ("", "Tiny", None)),
        ("resnet50", lambda image_size, classes: None, "'resnet50' is a model of tfbigbatch"),
        ("mine", lambda image_size: None, "takes no classes"),
        ("mine", lambda image_size, classes: None, "model 'mine' returned NoneType; expected a keras.Model"),
    ],
)
def test_a_name_and_a_function_are_checked(name, function, message):
    with pytest.raises(ValueError, match=message):
        models.register_image_model(name, function)
        image_models.build("mine", image_size=8, classes=2)
