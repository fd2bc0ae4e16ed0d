"""ExactResume in two processes on loopback."""

import numpy as np
import pytest

from tests.distributed.test_optimizers import run_together

WORKER = "tests.distributed.resumed_fit_worker"


# Under Keras 3 any `fit` fails on several workers: keras-team/keras#20585.
@pytest.mark.slow
@pytest.mark.parametrize("keras_version", ["tf_keras"])
def test_two_workers_end_in_the_bits_of_two_that_were_not_interrupted(keras_version, tmp_path):
    run_together(2, tmp_path, WORKER, keras_version, "whole")
    run_together(2, tmp_path, WORKER, keras_version, "killed", "8")
    assert not list(tmp_path.glob("killed?.npz"))
    run_together(2, tmp_path, WORKER, keras_version, "killed")
    for index in (0, 1):
        whole, resumed = (dict(np.load(tmp_path / f"{run}{index}.npz")) for run in ("whole", "killed"))
        for name, value in whole.items():
            np.testing.assert_array_equal(resumed[name], value, err_msg=name)
