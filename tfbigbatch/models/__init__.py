"""Reference models, one a file, built of Keras layers; image classifiers of your own, by name; initializers."""

from typing import TYPE_CHECKING, Any

from tfbigbatch.lazy_names import LazyNames
from tfbigbatch.models.image_models import register_image_model

if TYPE_CHECKING:
    from tfbigbatch.models.initializers import frequency_bias

__all__ = ["frequency_bias", "register_image_model"]
# On first use: it imports NumPy, which reading an experiment does not need.
_lazy = LazyNames(__name__, {"frequency_bias": "initializers"})


def __getattr__(name: str) -> Any:
    return _lazy.get(name)
