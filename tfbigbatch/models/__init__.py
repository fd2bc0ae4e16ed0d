"""Reference models, one a file, built of Keras layers; image classifiers of your own, by name; initializers."""

from typing import TYPE_CHECKING

from tfbigbatch import lazy_names
from tfbigbatch.models.image_models import register_image_model

if TYPE_CHECKING:
    from tfbigbatch.models.initializers import frequency_bias

__all__ = ["frequency_bias", "register_image_model"]
# On first use: it imports NumPy, which reading an experiment does not need.
__getattr__, __dir__ = lazy_names.of(__name__, {"frequency_bias": "initializers"})
