"""The loss between two sets of weights and around one, and the pictures of it."""

import numpy as np
import pytest

from tests.helpers.instrument_models import INSTRUMENTS, examples, fit, model_of, one_keras_or_slow, tanh
from tfbigbatch.instruments import losses_along, losses_around
from tfbigbatch.instruments.weights import filter_normalised

PROBE = examples(16, seed=1)


def loss_of(weights):
    """Of the linear model, in float64."""
    x, y = (array.astype("float64") for array in PROBE)
    return ((x @ weights[0] + weights[1] - y) ** 2).mean()


@one_keras_or_slow
def test_line_and_plane_are_the_loss_there_and_the_weights_stay(keras_version, tmp_path):
    plot = INSTRUMENTS[keras_version].InterpolationPlot(
        probe=PROBE, folder=tmp_path / "plots", surface_points=3, positions=(0.0, 0.5, 1.0), log=tmp_path / "events"
    )
    model = model_of(keras_version)
    start = model.get_weights()
    fit(model, [plot])
    end = model.get_weights()
    middle = [(one + other) / 2 for one, other in zip(start, end)]
    np.testing.assert_allclose(plot.line[1], [loss_of(each) for each in (start, middle, end)], rtol=1e-5)
    positions, losses = plot.surface
    np.testing.assert_array_equal(positions, [-1.0, 0.0, 1.0])
    assert losses[1, 1] == pytest.approx(loss_of(end), rel=1e-5) and (np.delete(losses, 4) != losses[1, 1]).all()
    for name in ("interpolation", "surface"):
        assert (tmp_path / "plots" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert list((tmp_path / "events").glob("*tfevents*"))

    path = str(tmp_path / "start.weights.h5")
    model.set_weights(start)
    model.save_weights(path)
    model.set_weights(end)
    np.testing.assert_allclose(losses_along(model, path, probe=PROBE, positions=(0.0, 1.0)), plot.line[1][[0, 2]])
    for one, other in zip(model.get_weights(), end):
        np.testing.assert_array_equal(one, other)


def test_every_filter_of_a_direction_has_the_norm_of_the_weights():
    random = np.random.RandomState(0)
    point = [random.normal(size=(3, 3, 2, 5)), random.normal(size=(7,)), random.normal(size=(4, 6))]
    kernel, bias, left = filter_normalised(point, np.random.RandomState(1), [True, True, False])
    np.testing.assert_allclose(np.sqrt((kernel**2).sum((0, 1, 2))), np.sqrt((point[0] ** 2).sum((0, 1, 2))))
    assert not bias.any() and not left.any() and not np.allclose(kernel, point[0])


def test_what_is_no_set_of_weights_is_refused(tmp_path):
    model = fit(model_of("tf_keras", tanh))
    for source, message in (
        ([np.zeros(3)], r"1 weights of shapes \[\(3,\)\]... are not those of the model, 4 of shapes"),
        ("run/checkpoints/step-8", "restore a model and pass its get_weights"),
        (str(tmp_path / "none.weights.h5"), "no such weights file"),
    ):
        with pytest.raises(ValueError, match=message):
            losses_along(model, source, probe=PROBE)
    with pytest.raises(ValueError, match="4 points along each axis of a surface: expected an odd number"):
        losses_around(model, probe=PROBE, points=4)
