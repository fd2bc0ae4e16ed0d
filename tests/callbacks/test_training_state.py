"""Saved state of training where two replicas hold different values."""

import numpy as np
import pytest

from tests.conftest import mirrored
from tests.helpers import resumed_fit
from tfbigbatch.callbacks.training_state import TrainingState


def values_of_replicas(model, keras_version):
    """The values that each replica has of the weights that are not trained, and of generators' states."""
    if keras_version == "keras3":
        variables = [each.value for each in model.non_trainable_variables]
    else:
        variables = list(model.non_trainable_variables) + [
            layer._random_generator._generator.state for layer in model.layers if hasattr(layer, "_random_generator")
        ]
    return [[value.numpy() for value in variable.values] for variable in variables]


@pytest.mark.parametrize("keras_version", ["tf_keras", "keras3"])
def test_each_replica_gets_its_own_statistics_and_generators_back(keras_version, tmp_path):
    strategy = mirrored(2)
    with strategy.scope():
        trained, fresh = (resumed_fit.model_of(keras_version) for _ in range(2))
    # The last batch of one example leaves the second replica none.
    features = np.random.default_rng(0).normal(size=(9, 4)).astype(np.float32)
    trained.fit(features, features[:, :1], batch_size=4, verbose=0)
    expected = values_of_replicas(trained, keras_version)
    assert any((first != second).any() for first, second in expected)
    TrainingState(trained).save(str(tmp_path), with_metrics=False)
    TrainingState(fresh).restore(str(tmp_path))
    np.testing.assert_equal(values_of_replicas(fresh, keras_version), expected)
