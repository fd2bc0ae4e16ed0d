"""Runs compared: the files of their directories, their logs, and the values of their checkpoints."""

import contextlib
import os

import numpy as np
import tensorflow as tf

from tfbigbatch import train
from tfbigbatch.run_directory.metrics_log import read_rows


def files_of(directory):
    """Path to (size, modification time) of every file."""
    found = {}
    for folder, _, names in os.walk(directory):
        for name in names:
            status = os.stat(os.path.join(folder, name))
            found[os.path.join(folder, name)] = (status.st_size, status.st_mtime_ns)
    return found


def values_of(checkpoint):
    """All values in a checkpoint by name; how many saves there were does not count."""
    reader = tf.train.load_checkpoint(str(checkpoint))
    dtypes = reader.get_variable_to_dtype_map()
    names = [
        name
        for name, dtype in dtypes.items()
        if ".ATTRIBUTES" in name and "save_counter" not in name and dtype != tf.string
    ]
    return {name: reader.get_tensor(name) for name in names}


def final_weights(model_dir):
    """The values in the newest checkpoint of a run."""
    return values_of(tf.train.latest_checkpoint(os.path.join(str(model_dir), "checkpoints")))


def assert_same_bits(directory, other):
    np.testing.assert_equal(final_weights(directory), final_weights(other))


def assert_close(directory, other, rtol=1e-3, atol=1e-5):
    """The newest checkpoint of `other` has the values of that of `directory`."""
    one, two = final_weights(directory), final_weights(other)
    for name, value in one.items():
        np.testing.assert_allclose(two[name], value, rtol=rtol, atol=atol, err_msg=name)


def curve(directory):
    """The rows of a run's log, but for its speed."""
    rows = read_rows(os.path.join(str(directory), "metrics.jsonl"))
    return [{name: value for name, value in row.items() if "per_second" not in name} for row in rows]


def resumes(tmp_path, config, *stops, **arguments):
    """Trains in `whole`, and in `parts` with stops, to the same bits; returns what the last run in `parts` gave."""
    train.run(config, model_dir=str(tmp_path / "whole"), **arguments)
    for stop in (*stops, None):
        done = train.run(config, model_dir=str(tmp_path / "parts"), stop_after=stop, **arguments)
    assert_same_bits(tmp_path / "whole", tmp_path / "parts")
    return done


def stopping(when):
    """Arguments of a run that is asked to stop when its heartbeat says `when`, as 'step 5'; see `one_step_a_call`."""
    requests = []

    @contextlib.contextmanager
    def watch(request):
        requests.append(request)
        yield

    def heartbeat(done):
        if done == when:
            requests[-1]("the test says so")

    return {"watch_preemption": watch, "heartbeat": heartbeat}


def killing(when):
    """Arguments of a run that ends at once when its heartbeat says `when`."""

    def heartbeat(done):
        if done == when:
            raise KeyboardInterrupt

    return {"heartbeat": heartbeat}
