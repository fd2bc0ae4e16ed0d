"""What the classifiers of images that fit in memory share: their data, their loss and their metrics."""

from tfbigbatch.data import fake
from tfbigbatch.tasks import classification


class ArrayClassification:
    """A task: model, data, loss, metrics and target. A subclass names its images, and makes its `network`.

    Attributes:
      models, checks: none; there is one model, and nothing to check as a run goes on.
      images: the module of the data set: SHAPE, CLASSES, BRIGHTEST and load(data_dir).
      model_defaults, data_defaults: the fields of the model and of the pipeline that an experiment may set.
      target, higher_is_better: the metric that tells the quality of a run, and its direction.
      evaluates_on: the held-out sets, of which a config names one.
      carries_state: no state goes on from one update to the next.
      metrics_in_training: whether training steps update the metrics; they cost next to nothing.
      data_decides: what the data decides about the network, in words; the same in all phases of a run.
      scores: None; the metrics tell all.
      training_examples: examples in an epoch, known without the data.
      train, test: `Arrays`.

    Args:
      model: dictionary of the model's fields.
      data: dictionary of the pipeline's; it has none.
      data_dir: where the data lies, or None.
      use_fake_data: made-up images of the right shape in place of the data.
    """

    images = None
    models = checks = ()
    model_defaults = {}
    data_defaults = {}
    target = "accuracy"
    higher_is_better = True
    evaluates_on = ("test",)
    carries_state = False
    metrics_in_training = True
    data_decides = "nothing"
    training_examples = scores = None

    def __init__(self, *, model, data, data_dir, use_fake_data):
        self._model = model
        self.train, self.test = fake.train_and_test(self.images) if use_fake_data else self.images.load(data_dir)

    def loss(self):
        """The loss that is trained, of logits."""
        return classification.loss()

    def metrics(self):
        """Weighted metrics, each a sum and a count, so that a mask leaves padding out."""
        return classification.metrics()
