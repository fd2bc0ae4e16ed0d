"""Language modelling by an LSTM: the Penn Treebank of Zaremba et al. 2014, WikiText-2, or any corpus.

The data is a folder that prepare-ptb wrote.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tfbigbatch.data.language_model import corpus
from tfbigbatch.tasks import output_bias
from tfbigbatch.tasks.base import Task, fact
from tfbigbatch.tasks.output_bias import ConstantLoss

if TYPE_CHECKING:
    import keras


class LSTMLanguageModel(Task):
    """A corpus read by an LSTM in `batch_size` contiguous streams, one window of each at a step.

    The loss is the mean over the windows of all streams; positions past the end of the text count as zero.

    The default model is Zaremba's small one. The windows of an epoch depend on the corpus and on the batch size.

    `model.output_bias` is the initial bias of the logits, one of `output_bias.CHOICES`.
    """

    model_defaults = {
        "window": 20,
        "hidden_units": 200,
        "embedding_units": 200,
        "layers": 2,
        "dropout": 0.0,
        "initial_scale": 0.1,
        "unit_forget_bias": False,
        "unroll": False,
        "output_bias": output_bias.DEFAULT,
    }
    smoke_sizes = {"window": 4, "hidden_units": 4, "embedding_units": 3}
    quick_sizes = {"window": 20, "hidden_units": 200, "embedding_units": 200}
    target = "perplexity"
    higher_is_better = False
    evaluates_on = ("test", "valid")
    carries_state = True
    metrics_in_training = False  # Over thousands of words they cost as much as the loss, and are the same.

    def __init__(
        self, *, model: Mapping[str, Any], data: Mapping[str, Any], data_dir: str | None, use_fake_data: bool
    ) -> None:
        del data
        from tfbigbatch.data.language_model.contiguous_batches import Streams

        self._model = dict(model)
        texts = corpus.fake() if use_fake_data else corpus.load(data_dir)
        self._vocabulary_size = len(texts.vocabulary)
        self.data_signature = f"{self._vocabulary_size:,} words"
        self.network_facts = {"vocabulary_size": self._vocabulary_size}
        self._output_bias = output_bias.OutputBias(
            model["output_bias"], texts, built="uniform", scale=model["initial_scale"]
        )
        source = "fake text" if use_fake_data else data_dir
        self.train, self.valid, self.test = (
            Streams(tokens, self._vocabulary_size, model["window"], f"{source}, {split}")
            for split, tokens in (("train", texts.train), ("valid", texts.valid), ("test", texts.test))
        )

    def network(self) -> keras.Model:
        """The Keras model, from tokens and states to logits and states."""
        network = self.network_from(self._model, self.network_facts)
        self._output_bias.initialize(network.get_layer("logits").bias)
        return network

    @classmethod
    def network_from(cls, model: Mapping[str, Any], facts: Mapping[str, Any]) -> keras.Model:
        from tfbigbatch.models import lstm_language_model

        fields = {name: value for name, value in model.items() if name != "output_bias"}
        return lstm_language_model.lstm_language_model(vocabulary_size=fact(facts, "vocabulary_size"), **fields)

    def banner_lines(self) -> list[str]:
        return [self._output_bias.line]

    def constant_loss(self) -> ConstantLoss:
        return ConstantLoss("loss", self._output_bias.counts)

    def loss(self) -> keras.losses.Loss:
        from tfbigbatch.tasks.losses import SmoothedCrossEntropy

        return SmoothedCrossEntropy()

    def metrics(self) -> list[keras.metrics.Metric]:
        from tfbigbatch.tasks.losses import token_metrics

        return token_metrics()
