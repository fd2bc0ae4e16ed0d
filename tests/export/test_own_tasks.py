"""Runs of tasks of one's own, with models of Keras 2 and of Keras 3: loaded and exported without their data."""

import textwrap

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tests.helpers import preloaded
from tests.helpers.datasets import image_sets
from tfbigbatch import experiment, load_run, tasks, train
from tfbigbatch.data.sources import image_folder
from tfbigbatch.experiment import files
from tfbigbatch.export import export_run

FILE = """
    import numpy as np

    from tfbigbatch import experiment, tasks

    def network(width=4):
        from {keras} import Input, Model, layers

        numbers = Input((3,), name="numbers")
        hidden = layers.BatchNormalization()(layers.Dense(width, "tanh")(numbers))
        return Model(numbers, layers.Dense(1)(layers.Dropout(0.5)(hidden)))

    def data(examples=40):
        x = np.random.default_rng(0).normal(size=(examples, 3)).astype("float32")
        return x, x.sum(axis=1, keepdims=True)

    tasks.define("{name}", network=network, data=data, loss="mse", metrics=["mae"])

    def get_config():
        config = experiment.new("{name}")
        config.batch_size, config.duration = 10, "2 epochs"
        return config
"""


@pytest.mark.slow
@pytest.mark.parametrize("package", ["tf_keras", "keras"])
def test_a_regression_in_a_file_outside_of_the_package(package, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(textwrap.dedent(FILE).format(keras=package, name=f"sum_by_{package}"))
    # Trained by another process: this one learns of the task from the run alone.
    trained = preloaded.run(
        "tfbigbatch", "train", "--config=mine.py", "--model_dir=run", folder=tmp_path, package_path=preloaded.ROOT
    )
    assert trained.returncode == 0, trained.stderr
    run, numbers = load_run(tmp_path / "run"), np.random.default_rng(1).normal(size=(5, 3)).astype("float32")
    assert run.metrics["mae"] > 0.0 and run.config.batch_size == 10
    expected = run.network(numbers).numpy()
    exported = export_run(tmp_path / "run", tmp_path / "out")
    three = keras.saving.load_model(exported.files["keras3"])
    np.testing.assert_allclose(three(numbers), expected, rtol=1e-5, atol=1e-6)
    served = tf.saved_model.load(exported.files["saved_model"]).signatures["serving_default"]
    [found] = served(numbers=tf.constant(numbers)).values()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    if package == "keras":
        assert "is a model of Keras 3, which Keras 2 cannot load" in exported.skipped["keras2"]
    else:
        assert np.array_equal(tf_keras.models.load_model(exported.files["keras2"])(numbers), expected)
    # The data is not read, and what the data determined is known.
    moved = file.rename(tmp_path / "moved.py")
    tasks._registered.pop(f"sum_by_{package}")
    files._executed.clear()
    with pytest.raises(ValueError, match="is executed only if you name it"):
        load_run(tmp_path / "run")
    assert np.array_equal(load_run(tmp_path / "run", experiment_file=moved).network(numbers), expected)


def network(input_shape, classes):
    layers = tf_keras.layers
    return tf_keras.Sequential(
        [layers.Input(input_shape), layers.Conv2D(2, 3), layers.Flatten(), layers.Dense(classes)]
    )


@pytest.mark.slow
def test_a_folder_of_images_takes_the_bytes_of_its_files(tmp_path):
    images = image_sets.files_of("", 4)
    folder = image_sets.write_folder(tmp_path / "images", {name.strip("/"): each for name, each in images.items()})
    tasks.define("pictures", network=network, data=tasks.from_image_folder(image_size=8))
    config = experiment.new("pictures")
    config.batch_size, config.duration = 4, "1 steps"
    train.run(config, model_dir=str(tmp_path / "run"), data_dir=folder)
    exported = export_run(tmp_path / "run")
    assert list(exported.files) == ["keras2", "keras3", "saved_model"]
    served = tf.saved_model.load(exported.files["saved_model"]).signatures["serving_default"]
    found = served(image=tf.constant(list(images.values())))
    read = image_folder.splits(folder, image_size=8)["train"]
    images, _ = read.fetch(tf.range(len(read), dtype=tf.int64))
    np.testing.assert_allclose(found["logits"], load_run(tmp_path / "run").network(images), rtol=1e-4, atol=1e-3)
    assert set(found["class_name"].numpy()) <= {name.encode() for name in image_sets.CLASSES}
