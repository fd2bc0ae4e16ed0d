"""What the tests share: four logical CPUs, and a clean Keras for each test."""

import gc
import os
import shutil
import subprocess
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# Tests in this process are of one machine; those of several start processes of their own.
os.environ.pop("TF_CONFIG", None)
# Where runs of a user's experiment file are recorded: not in the home of whoever tests.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="tfbigbatch_state_")

import keras
import pytest
import tensorflow as tf
import tf_keras
from tensorflow.python.framework.config import disable_op_determinism

from tests.helpers import covering
from tfbigbatch.models import image_models
from tfbigbatch.optimizers import registry
from tfbigbatch.tasks import registry as task_registry
from tfbigbatch.training.strategy import choose

LOGICAL_CPUS = 4
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * LOGICAL_CPUS
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Before `-m` selects by the marks."""
    covering.mark_the_rest_slow(items)


def pytest_sessionfinish():
    shutil.rmtree(os.environ["XDG_STATE_HOME"], ignore_errors=True)


def pytest_collection():
    """Imports leave no garbage."""
    gc.disable()


def pytest_collection_finish():
    """From here garbage is collected, but not searched for in what was imported: that took 0.3 seconds each time.

    Nor as often as by default: a traced function makes tens of thousands of objects that stay.
    """
    gc.freeze()
    gc.set_threshold(5_000)
    gc.enable()


@pytest.fixture(autouse=True)
def clean_keras():
    """The trainer sets the process's precision policy, seeds and determinism; each test starts from the defaults.

    They are set again after it: fixtures of the next module are made before its first test's own.
    """
    _reset_keras()
    yield
    _reset_keras()


def _reset_keras():
    # tf.config turns it on only.
    disable_op_determinism()
    tf_keras.backend.clear_session()
    tf_keras.mixed_precision.set_global_policy("float32")
    keras.config.set_dtype_policy("float32")
    tf_keras.utils.set_random_seed(0)


@pytest.fixture(autouse=True, scope="session")
def untuned_iterators():
    """Iterators without the thread that tunes buffers: dropping one waits for it, up to a minute, in any later test."""
    iterate, untuned = tf.data.Dataset.__iter__, tf.data.Options()
    untuned.autotune.enabled = False
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tf.data.Dataset, "__iter__", lambda dataset: iterate(dataset.with_options(untuned)))
        yield


@pytest.fixture(autouse=True, scope="session")
def collectives_of_one_size():
    """Refuses what would fail another test of this process, for the reason that `mirrored` gives."""
    initialise = tf.distribute.MirroredStrategy.__init__

    def checked(strategy, devices=None, cross_device_ops=None):
        initialise(strategy, devices, cross_device_ops)
        if cross_device_ops is None and strategy.num_replicas_in_sync not in (1, LOGICAL_CPUS):
            raise AssertionError("take tests.conftest.mirrored, or a process of its own")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tf.distribute.MirroredStrategy, "__init__", checked)
        yield


@pytest.fixture(autouse=True)
def own_optimizers_and_tasks(monkeypatch):
    """An optimizer or task that a file registers is known to its test alone."""
    monkeypatch.setattr(registry, "_registered", {})
    monkeypatch.setattr(task_registry, "_registered", {})
    monkeypatch.setattr(image_models, "_MODELS", dict(image_models._MODELS))
    yield
    image_models.NAMES[:] = sorted(image_models._BUILT_IN)


@pytest.fixture(scope="session")
def quick_config():
    """Returns a function that gives a digits experiment of seconds, with fields changed."""
    from tfbigbatch.config import new_config

    def make(**fields):
        config = new_config("digits_lstm")
        config.model.hidden_units = 8
        config.batch_size = 48
        config.duration = "24 steps"
        config.evaluate_every = "12 steps"
        config.checkpoint_every = "8 steps"
        config.log_every = "4 steps"
        for name, value in fields.items():
            holder, _, last = name.rpartition("__")
            (config[holder] if holder else config)[last] = value
        return config

    return make


@pytest.fixture
def one_step_a_call(monkeypatch):
    """Runs call the compiled steps for one step at a time, so that a heartbeat comes after every step."""
    monkeypatch.setattr("tfbigbatch.training.step._SECONDS", 0.0)


@pytest.fixture
def simulated_replicas(monkeypatch):
    """Runs with `simulated_replicas` in this process reduce on one device, for the reason that `mirrored` gives."""
    reduce_on_one_device(monkeypatch)


def reduce_on_one_device(monkeypatch):
    """What the fixture `simulated_replicas` does, for fixtures of a module."""
    monkeypatch.setattr(
        "tfbigbatch.training.strategy._mirrored_strategy",
        lambda devices: tf.distribute.MirroredStrategy(
            list(devices), cross_device_ops=tf.distribute.ReductionToOneDevice()
        ),
    )


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 256 KiB."""
    path = tmp_path / "disk"
    path.mkdir()
    try:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", path], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("mounting a small file system needs the right to mount")
    yield path
    subprocess.run(["umount", path], check=True)


def replicated(replicas):
    """A strategy of one device, or a mirrored one."""
    return mirrored(replicas) if replicas > 1 else tf.distribute.OneDeviceStrategy("CPU:0")


def mirrored(replicas):
    """MirroredStrategy over the first logical CPUs.

    TensorFlow keeps the groups of its collective operations for the life of a process, and devices
    cannot join groups of different sizes: four replicas use them, other numbers reduce on one device.
    """
    if replicas == LOGICAL_CPUS:
        return choose("mirrored")[0]
    devices = [f"CPU:{i}" for i in range(replicas)]
    return tf.distribute.MirroredStrategy(devices, cross_device_ops=tf.distribute.ReductionToOneDevice())


def without_values(build, **fields):
    """A Keras 3 model whose weights get no values, which takes seconds."""
    with keras.StatelessScope(initialize_variables=False):
        model = build(**fields)
    # Or the next model that is built would give them theirs.
    keras.utils.clear_session(free_memory=False)
    return model
