import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.instrument_models import INSTRUMENTS, fit, model_of, tanh
from tests.helpers.keras_versions import KERAS, KERAS_VERSIONS, make, variables
from tfbigbatch.instruments import UpdateSpectra, update_spectrum


@pytest.mark.parametrize("shape", [(7, 7), (40, 3), (3, 40), (3, 3, 4, 5)])
def test_the_singular_values_are_numpys(shape):
    update = np.random.RandomState(0).normal(size=shape)
    found = update_spectrum(update)
    expected = np.linalg.svd(update.reshape(-1, shape[-1]), compute_uv=False)
    np.testing.assert_allclose(found.singular_values, expected, rtol=1e-10)
    assert found.stable_rank == pytest.approx(np.sum(update**2) / expected[0] ** 2)
    shares = expected / expected.sum()
    assert found.effective_rank == pytest.approx(np.exp(-np.sum(shares * np.log(shares))))


@pytest.mark.parametrize("scale", [1.0, 1e-30, 1e30])
def test_ranks_do_not_depend_on_the_scale(scale):
    random = np.random.RandomState(0)
    outer = scale * np.outer(random.normal(size=5), random.normal(size=8))
    assert update_spectrum(outer).stable_rank == pytest.approx(1.0)
    assert update_spectrum(outer).effective_rank == pytest.approx(1.0, abs=1e-5)
    orthogonal = scale * np.linalg.qr(random.normal(size=(8, 5)))[0]
    assert update_spectrum(orthogonal).stable_rank == pytest.approx(5.0)
    assert update_spectrum(orthogonal).effective_rank == pytest.approx(5.0)


def test_an_update_of_zero_has_no_rank():
    found = update_spectrum(np.zeros((3, 4)))
    assert (found.stable_rank, found.effective_rank) == (0.0, 0.0) and not found.normalized.any()


def test_an_attention_kernel_is_read_from_its_first_axis():
    update = np.random.RandomState(0).normal(size=(6, 2, 3))
    expected = np.linalg.svd(update.reshape(6, 6), compute_uv=False)
    np.testing.assert_allclose(update_spectrum(update, row_axes=1).singular_values, expected, rtol=1e-10)


@pytest.mark.parametrize(
    "update, row_axes", [(np.ones(3), None), (np.ones((0, 3)), None), (np.ones((2, 2)), 2), ([[np.nan, 1.0]], None)]
)
def test_what_is_no_matrix_is_refused(update, row_axes):
    with pytest.raises(ValueError, match="expected"):
        update_spectrum(update, row_axes)


def run(keras_version, optimizers, steps=3, layers=""):
    """(spectra by step, weights by step, gradients by step): the model's own optimizer is plain descent."""
    random = np.random.RandomState(0)
    start = {"kernel": random.normal(size=(6, 4)), "bias": random.normal(size=4)}
    model = variables(keras_version, start)
    spectra = UpdateSpectra(model, optimizers, layers=layers)
    weights, gradients, found = [], [], []
    for _ in range(steps):
        weights.append(np.array(model[0]))
        gradients.append(random.normal(size=(6, 4)).astype("float32"))
        found.append(spectra.step([tf.constant(gradients[-1]), tf.zeros(4)]))
        model[0].assign(weights[-1] - 0.1 * gradients[-1])
    return found, weights, gradients


@pytest.mark.parametrize("keras_version", KERAS_VERSIONS)
def test_each_optimizer_keeps_its_own_momentum(keras_version):
    """Momentum against NumPy; Muon's update is nearly the polar factor, whatever the gradient."""
    keras = KERAS[keras_version]
    optimizers = {
        "momentum": keras.optimizers.SGD(0.1, momentum=0.9),
        "Adam": keras.optimizers.Adam(0.01),
        "Muon": make(keras_version, "Muon", learning_rate=0.02),
    }
    found, _, gradients = run(keras_version, optimizers)
    velocity = np.zeros((6, 4))
    for spectra, gradient in zip(found, gradients):
        velocity = 0.9 * velocity - 0.1 * gradient
        expected = np.linalg.svd(velocity, compute_uv=False)
        np.testing.assert_allclose(spectra["momentum"]["kernel"].singular_values, expected, rtol=1e-4)
        assert spectra["Muon"]["kernel"].normalized.min() > 0.5
    # The first step of Adam has entries of one size.
    np.testing.assert_allclose(
        found[0]["Adam"]["kernel"].singular_values,
        np.linalg.svd(0.01 * np.sign(gradients[0]), compute_uv=False),
        rtol=1e-3,
        atol=1e-6,
    )
    assert list(found[0]["momentum"]) == ["kernel"]


@pytest.mark.parametrize("keras_version", KERAS_VERSIONS)
def test_copies_have_the_paths_of_the_model(keras_version):
    """Muon leaves an embedding to Adam by its path: its update is not orthogonal then."""
    keras = KERAS[keras_version]
    model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Embedding(9, 5, name="embedding")])
    spectra = UpdateSpectra(
        model.trainable_variables, {"Muon": make(keras_version, "Muon", learning_rate=0.02)}, layers="embedding"
    )
    gradient = np.random.RandomState(0).normal(size=(9, 5)).astype("float32")
    found = spectra.step([tf.constant(gradient)])["Muon"][spectra.paths[0]]
    expected = np.linalg.svd(np.sign(gradient), compute_uv=False)
    np.testing.assert_allclose(found.normalized, expected / expected[0], rtol=1e-3)


def test_steps_that_are_only_followed_count():
    keras = KERAS["keras3"]
    model = variables("keras3", {"kernel": np.ones((2, 2))})
    spectra = UpdateSpectra(model, {"momentum": keras.optimizers.SGD(0.1, momentum=0.9)})
    assert spectra.step([tf.constant([[1.0, 0.0], [0.0, 0.0]])], measure=False) == {}
    found = spectra.step([tf.constant([[0.0, 0.0], [0.0, 1.0]])])["momentum"]["kernel"]
    np.testing.assert_allclose(found.singular_values, [0.1, 0.09], rtol=1e-5)
    np.testing.assert_array_equal(np.array(model[0]), np.ones((2, 2)))


def test_a_pattern_that_is_nowhere_is_refused():
    with pytest.raises(ValueError, match="kernel"):
        UpdateSpectra(variables("keras3", {"kernel": np.ones((2, 2))}), {}, layers="lstm")


def test_layer_statistics_have_the_ranks_of_the_changes():
    layers = INSTRUMENTS["keras3"].LayerStatistics(when=1, spectrum=True)
    model = model_of("keras3", tanh, optimizer=lambda: KERAS["keras3"].optimizers.SGD(0.1))
    before = model.get_weights()
    fit(model, [layers], steps=1)
    for variable, old, new in zip(model.trainable_variables, before, model.get_weights()):
        names = [f"update_{kind}_rank/{variable.path}" for kind in ("stable", "effective")]
        if old.ndim == 1:
            assert not any(name in layers.history[0] for name in names)
            continue
        values = np.linalg.svd(new - old, compute_uv=False)
        assert layers.history[0][names[0]] == pytest.approx(np.sum(values**2) / values[0] ** 2, rel=1e-4)
        assert 1.0 <= layers.history[0][names[1]] <= min(old.shape) + 1e-6
