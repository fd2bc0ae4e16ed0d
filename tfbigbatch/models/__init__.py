"""Reference models, one a file, built of Keras layers; and image classifiers of your own, by name."""

from tfbigbatch.models.image_models import register_image_model

__all__ = ["register_image_model"]
