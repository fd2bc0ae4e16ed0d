import keras
import numpy as np
import pytest

from tests.helpers.instrument_models import fit, model_of, tanh
from tfbigbatch import instruments
from tfbigbatch.optimizers.keras3 import LAMB


def paths(model):
    return [variable.path for variable in model.trainable_variables]


def watched(optimizer, steps, **options):
    """(model, rows, weights after each update)."""
    layers, weights = instruments.LayerStatistics(when=1, **options), []

    class Keep(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            weights.append(self.model.get_weights())

    model = model_of(tanh, optimizer=optimizer)
    weights.append(model.get_weights())
    fit(model, [layers, Keep()], steps=steps)
    return model, layers.history, weights


OPTIMIZERS = {
    "SGD": lambda: keras.optimizers.SGD(0.1),
    "LAMB": lambda: LAMB(0.02, layer_statistics=True, exclude_from_layer_adaptation=["bias"]),
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_norms_are_those_of_the_weights_and_of_their_change(optimizer):
    model, rows, weights = watched(OPTIMIZERS[optimizer], steps=3)
    assert [row["step"] for row in rows] == [1, 2, 3]
    for row, before, after in zip(rows, weights, weights[1:]):
        for path, old, new in zip(paths(model), before, after):
            weight, update = np.linalg.norm(old), np.linalg.norm(new - old)
            assert row[f"weight_norm/{path}"] == pytest.approx(weight, rel=1e-5)
            assert row[f"update_norm/{path}"] == pytest.approx(update, rel=1e-4)
            assert row.get(f"update_to_weight/{path}", 0.0) == pytest.approx(
                update / weight if weight else 0.0, rel=1e-4
            )
    ratios = {name: value for name, value in rows[-1].items() if name.startswith("trust_ratio")}
    if optimizer == "SGD":
        assert not ratios
    else:
        statistics = model.optimizer.layer_statistics()
        assert ratios == {f"trust_ratio/{path}": row.trust_ratio for path, row in statistics.items()}
        assert [ratio == 1.0 for ratio in ratios.values()] == ["bias" in path for path in paths(model)]


def test_an_accumulating_optimizer_is_watched_over_its_update():
    layers = instruments.LayerStatistics(when=2)
    model = fit(model_of(tanh, optimizer=lambda: LAMB(0.02, accumulation_steps=3)), [layers], steps=12)
    assert [row["step"] for row in layers.history] == [2, 4]
    kernel = paths(model)[0]
    # LAMB changes an adapted layer by the rate times its norm.
    assert layers.history[1][f"update_to_weight/{kernel}"] == pytest.approx(0.02, rel=1e-3)
