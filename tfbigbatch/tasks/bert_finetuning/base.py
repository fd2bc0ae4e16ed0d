"""What the tasks that fine-tune BERT share: the model's fields, its first values, and the words."""

from tfbigbatch.data import tokenizer
from tfbigbatch.data.finetuning import fake
from tfbigbatch.errors import InputError
from tfbigbatch.models import bert, bert_checkpoints


class FineTuning:
    """The base of the tasks.

    The model begins with the encoder of `model.init_checkpoint`, where one is named (see `bert_checkpoints.read`),
    and a head of random values.

    Attributes:
      models: the names of the sizes, of which a config names one.
      head_defaults: the model's fields that are the task's own, with their defaults.
      target, higher_is_better: the score that tells the quality of a run, in percent, and its direction.
      carries_state: no state goes on from one update to the next.
      metrics_in_training: whether training steps update the metrics; there are none, but scores.
      checks: nothing to check as a run goes on.
      data_decides: what the data decides about the network, in words; the same in all phases of a run.
      training_examples: None; known from the data.

    Args:
      model: dictionary of the model's fields: its name, and its own.
      data: dictionary of the data's fields.
      data_dir: where the data lies.
      use_fake_data: a few made-up texts in its place.
    """

    models = tuple(bert.SIZES)
    head_defaults = {}
    checks = ()
    target = "score"
    higher_is_better = True
    carries_state = False
    metrics_in_training = False
    training_examples = None

    @classmethod
    def model_defaults_of(cls, name):
        """The fields of the size `name` that an experiment may set.

        Raises:
          ValueError: the name is unknown.
        """
        return {"name": name, **bert.defaults(name), **cls.head_defaults, "init_checkpoint": ""}

    @staticmethod
    def smoke_model(model):
        """The fields that a smoke run sets, for a tiny model of the same structure."""
        del model
        sizes = {"layers": 1, "hidden_units": 8, "heads": 2, "inner_units": 16, "max_positions": 64}
        return {"name": "bert_tiny", **sizes, "init_checkpoint": ""}

    def __init__(self, *, model, data, data_dir, use_fake_data):
        self._model = {name: value for name, value in model.items() if name not in ("name", "init_checkpoint")}
        self._init_checkpoint = model["init_checkpoint"]
        self._data = data
        self._tokenizer = fake.tokenizer() if use_fake_data else self._tokenizer_of(data)
        self.read(data_dir, use_fake_data)

    def read(self, data_dir, use_fake_data):
        """Reads the examples, into `train` and the sets that are held out."""
        raise NotImplementedError

    def head(self, **sizes):
        """The Keras model, at its random values."""
        raise NotImplementedError

    def network(self):
        """The Keras model, from pieces of words to logits."""
        network = self.head(vocabulary_size=len(self._tokenizer.vocabulary), **self._model)
        bert_checkpoints.begin_with(network, self._init_checkpoint)
        return network

    def metrics(self):
        """None: what counts is `scores`."""
        return []

    @staticmethod
    def _tokenizer_of(data):
        if not data["vocab_file"]:
            raise InputError("data.vocab_file is missing: give the vocab.txt that the model was pretrained with.")
        return tokenizer.Tokenizer(tokenizer.Vocabulary.load(data["vocab_file"]), data["lower_case"])
