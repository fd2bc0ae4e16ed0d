import pytest
import tensorflow as tf

from tfbigbatch.utils.tensorflow_paths import literal_path


@pytest.mark.parametrize("name", ["lr=[0.1]", "a\\b", "w*", "q?"])
def test_a_checkpoint_is_read_at_its_own_path_alone(name, tmp_path):
    for folder in (name, "lr=0", "w and more", "qx", "ab"):
        (tmp_path / folder).mkdir()
        tf.train.Checkpoint(value=tf.Variable(1.0 if folder == name else 2.0)).write(str(tmp_path / folder / "step-1"))
    value = tf.Variable(0.0)
    tf.train.Checkpoint(value=value).read(literal_path(str(tmp_path / name / "step-1"))).assert_consumed()
    assert value == 1.0
    # Where the checkpoint's own name has such characters.
    tf.train.Checkpoint(value=tf.Variable(3.0)).write(str(tmp_path / name))
    (tmp_path / name).rename(tmp_path / "elsewhere")
    tf.train.Checkpoint(value=value).read(literal_path(str(tmp_path / name))).assert_consumed()
    assert value == 3.0
