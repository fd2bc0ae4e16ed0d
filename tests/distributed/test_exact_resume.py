"""ExactResume in two processes on loopback."""

import os
import time

import numpy as np
import pytest

from tests.distributed.worker import run_together
from tests.helpers import resumed_fit


def leave():
    # The other worker may still wait for a sum of this one.
    time.sleep(2)
    os._exit(0)


def in_a_worker(strategy, directory, keras_version, run, step=None):
    """Trains in DIRECTORY/RUN; the process ends after STEP batches, where that is given."""
    with strategy.scope():
        model = resumed_fit.model_of(keras_version)
    die = [resumed_fit.die_at(keras_version, "on_train_batch_end", int(step), leave)] if step else []
    return resumed_fit.train(keras_version, "indexable", os.path.join(directory, run), die, model=model)


# Under Keras 3 any `fit` fails on several workers: keras-team/keras#20585.
@pytest.mark.slow
@pytest.mark.parametrize("keras_version", ["tf_keras"])
def test_two_workers_end_in_the_bits_of_two_that_were_not_interrupted(keras_version, tmp_path):
    whole = run_together(2, tmp_path, in_a_worker, keras_version, "whole", name="whole")
    assert not run_together(2, tmp_path, in_a_worker, keras_version, "killed", "8", name="killed")
    resumed = run_together(2, tmp_path, in_a_worker, keras_version, "killed", name="killed")
    np.testing.assert_equal(resumed, whole)
