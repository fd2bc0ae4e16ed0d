"""The base class of callbacks for `fit` of Keras 2 and Keras 3."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfbigbatch import keras_version


class _Nothing:
    """The default hook: does nothing. Keras' mark spares a wait for logs after each step."""

    _is_default = True

    def __call__(self, *arguments: Any, **named: Any) -> None:
        pass


def _implements(phase: str) -> Callable[[Any], bool]:
    def implements(callback: Any) -> bool:
        hooks = (getattr(callback, f"on_{phase}_batch_{end}") for end in ("begin", "end"))
        return not all(hasattr(hook, "_is_default") for hook in hooks)

    return implements


class Callback:
    """The methods that Keras' list of callbacks calls; a subclass overrides the hooks that it needs.

    Attributes:
      model: that `fit` trains; of either Keras.
      params: of `fit`: epochs, steps, verbose.
    """

    model: Any = None
    params: Any = None
    # One for each hook of Keras.
    _nothing: Any = _Nothing()
    on_batch_begin = on_batch_end = on_epoch_begin = on_epoch_end = _nothing
    on_train_begin = on_train_end = on_train_batch_begin = on_train_batch_end = _nothing
    on_test_begin = on_test_end = on_test_batch_begin = on_test_batch_end = _nothing
    on_predict_begin = on_predict_end = on_predict_batch_begin = on_predict_batch_end = _nothing

    def set_params(self, params: Any) -> None:
        """Called by Keras."""
        self.params = params

    def set_model(self, model: Any) -> None:
        """Called by Keras; raises ValueError where Keras 3 runs on another backend than TensorFlow."""
        keras_version.require_tensorflow(model, type(self).__name__)
        self.model = model

    # Names of tf_keras, which asks which hooks it need not call.
    _implements_train_batch_hooks, _implements_test_batch_hooks, _implements_predict_batch_hooks = map(
        _implements, ("train", "test", "predict")
    )
