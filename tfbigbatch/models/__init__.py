"""Reference models, one a file, built of Keras layers; image classifiers of your own, by name; initializers."""

from typing import TYPE_CHECKING, Any

from tfbigbatch.models.image_models import register_image_model

if TYPE_CHECKING:
    from tfbigbatch.models.initializers import frequency_bias

__all__ = ["frequency_bias", "register_image_model"]


def __getattr__(name: str) -> Any:
    # On first use: it imports NumPy, which reading an experiment does not need.
    if name == "frequency_bias":
        from tfbigbatch.models.initializers import frequency_bias

        return frequency_bias
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
