"""The losses of the image networks in Keras' own `fit`, on the backend that KERAS_BACKEND names, as JSON.

    KERAS_BACKEND=jax python -m tests.helpers.fit_program
"""

import json

import keras
import numpy as np

from tests.recorded import networks_vision

EXAMPLES, EPOCHS = 8, 2
# File, case and fields that are changed.
FITTED = {
    "row classifier": ("small_classifiers", "lstm, projection", {}),
    "lenet": ("small_classifiers", "lenet", {}),
    "alexnet": ("alexnet", "two groups", {}),
    "alexnet_bn": ("alexnet", "batch", {}),
    "resnet": ("resnet", "basic", {}),
    "resnet, recomputed": ("resnet", "basic", {"recompute": True}),
}


def losses():
    """The losses of the epochs by name, from fixed weights."""
    found = {}
    for name, (file, case, changed) in FITTED.items():
        build, fields = networks_vision.NETWORKS[file][case]
        fields = {**fields, **changed}
        model = networks_vision.with_fixed_weights(build, fields)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.SGD(0.01), loss)
        data = networks_vision.images_for(fields, EXAMPLES), np.arange(EXAMPLES) % fields["classes"]
        history = model.fit(*data, batch_size=networks_vision.BATCH, epochs=EPOCHS, shuffle=False, verbose=0)
        found[name] = history.history["loss"]
    return found


if __name__ == "__main__":
    print(json.dumps(losses()))
