"""Pictures to classes: ImageNet, tiny-imagenet, or any folder of JPEGs that tools/prepare_imagenet.py prepared.

The model is one of `models.image_models`, by name.
"""

import tf_keras

from tfbigbatch.data import fake
from tfbigbatch.data.images import manifest as image_manifest
from tfbigbatch.data.images.dataset import ImageRecords
from tfbigbatch.errors import InputError
from tfbigbatch.models import image_models
from tfbigbatch.tasks import classification


class ImageClassification:
    """A task: model, data, loss, metrics and target.

    Attributes:
      models: the names of the models, of which a config names one.
      data_defaults: those of the pipeline; see `ImageRecords`.
      target, higher_is_better: the metric that tells the quality of a run, and its direction.
      evaluates_on: the held-out sets, of which a config names one.
      carries_state: no state goes on from one update to the next.
      metrics_in_training: whether training steps update the metrics; they cost next to nothing.
      data_decides: what the data decides about the network, in words; the same in all phases of a run.
      scores: None; the metrics tell all.
      training_examples: None; known from the data.
      train, validation: `ImageRecords`, or `Arrays` of made-up images.
      checks: functions that raise where too many of their records are bad.

    Args:
      model: dictionary of the model's fields: its name, its image_size, and its own.
      data: dictionary of the pipeline's.
      data_dir: a prepared folder.
      use_fake_data: a few made-up images in its place.
    """

    # Whatever the model: pixels of a side, the loss's label smoothing, and batch normalisation over all replicas.
    _SHARED = {"image_size": 224, "label_smoothing": 0.0, "cross_replica_norm": False}
    data_defaults = {
        "min_area": 0.08,
        "reduced_decoding": False,
        "central_share": 0.875,
        "shuffle_window": 8192,
        "cache_records": False,
        "max_bad_share": 0.0001,
    }
    models = tuple(image_models.names())
    target = "accuracy"
    higher_is_better = True
    evaluates_on = ("validation",)
    carries_state = False
    metrics_in_training = True
    training_examples = scores = None

    @classmethod
    def model_defaults_of(cls, name):
        """The fields of the model `name` that an experiment may set.

        Raises:
          ValueError: the name is unknown.
        """
        return {"name": name, **cls._SHARED, **image_models.defaults(name)}

    @staticmethod
    def smoke_model(model):
        """The fields that a smoke run sets, for a tiny model of the same structure."""
        tiny = {"image_size": 64, "width": 6}
        if "fc_units" in model:
            return {**tiny, "fc_units": 8}
        # One block a stage: fifty layers take a minute to trace.
        return {**tiny, "name": model["name"].replace("resnet50", "resnet14")}

    def __init__(self, *, model, data, data_dir, use_fake_data):
        self._model = dict(model)
        self._label_smoothing = self._model.pop("label_smoothing")
        if use_fake_data:
            self.train, self.validation = fake.pictures(self._model["image_size"])
            self._classes, self.checks = self.train.classes, ()
            self.data_decides = f"{self._classes:,} classes"
            return
        manifest = image_manifest.load(data_dir)
        if "validation" not in manifest.splits:
            raise InputError(
                f"--data_dir={data_dir} has no validation split. Prepare it with both; tools/prepare_imagenet.py "
                "holds out a share where a source has none (--validation_share)."
            )
        self._classes = len(manifest.classes)
        self.data_decides = f"{self._classes:,} classes"
        self.train, self.validation = (
            ImageRecords(manifest.splits[name], manifest, image_size=self._model["image_size"], **data)
            for name in ("train", "validation")
        )
        self.checks = (self.train.bad.check, self.validation.bad.check)

    def network(self):
        """The Keras model, from uint8 images to logits."""
        return image_models.build(classes=self._classes, **self._model)

    def loss(self):
        """The loss that is trained, of logits."""
        return classification.loss(self._label_smoothing)

    def metrics(self):
        """Weighted metrics, each a sum and a count, so that a mask leaves padding out."""
        return [*classification.metrics(), tf_keras.metrics.SparseTopKCategoricalAccuracy(5, name="top_5_accuracy")]
