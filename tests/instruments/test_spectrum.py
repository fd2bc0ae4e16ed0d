import keras
import numpy as np
import pytest

from tests.helpers.instrument_models import fit, model_of, tanh
from tfbigbatch.instruments import LayerStatistics, update_spectrum


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


def test_layer_statistics_have_the_ranks_of_the_changes():
    layers = LayerStatistics(when=1, spectrum=True)
    model = model_of(tanh, optimizer=lambda: keras.optimizers.SGD(0.1))
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
