"""The common part of BERT's fine-tuning tasks: the tokenizer, the network, and scores in place of metrics."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from tfbigbatch.data.tokenizer import Tokenizer, Vocabulary
from tfbigbatch.errors import InputError
from tfbigbatch.tasks.base import fact
from tfbigbatch.tasks.bert import BertTask
from tfbigbatch.utils.home import expanded

if TYPE_CHECKING:
    import tf_keras


VOCABULARY = "vocab.txt"
"""The file of a run directory with the tokens, in id order."""


class FineTuning(BertTask):
    """Fine-tuning of BERT on a labelled data set, measured by its official scores in percent.

    A subclass defines `read_examples`, `builder`, `source` and `scores`.
    """

    target = "score"
    has_scores = True
    builder: ClassVar[str]
    """The function of `models.bert` that makes the network, from token ids to logits."""
    source: ClassVar[str]
    """The form of the data in words."""

    @classmethod
    def quick_data(cls, data: Mapping[str, Any], data_dir: str | None) -> dict[str, Any]:
        return {"max_seq_length": min(data["max_seq_length"], 128)}

    @classmethod
    def check_data(cls, data: Mapping[str, Any], data_dir: str | None) -> None:
        file = data["vocab_file"]
        if not file:
            raise InputError("data.vocab_file is missing: give the vocab.txt that the model was pretrained with.")
        if not os.path.isfile(expanded(file)):
            raise InputError(f"data.vocab_file={file}: no such file; give the vocab.txt of the pretrained model.")
        if data_dir is None:
            raise InputError(f"--data_dir is missing: give {cls.source}.")

    def read(self, data: Mapping[str, Any], data_dir: str | None, use_fake_data: bool) -> None:
        self._data = data
        if use_fake_data:
            from tfbigbatch.data.finetuning import fake

            self._tokenizer = fake.tokenizer()
        else:
            self._tokenizer = Tokenizer(Vocabulary.load(data["vocab_file"]), data["lower_case"])
        vocabulary = self._tokenizer.vocabulary
        # With the vocabulary, a run directory is enough to use the trained model on texts.
        self.run_files = {VOCABULARY: vocabulary.content}
        self.network_facts = {"vocabulary_size": len(vocabulary)}
        self.read_examples(data_dir, use_fake_data)

    def read_examples(self, data_dir: str | None, use_fake_data: bool) -> None:
        """Reads the examples into `train` and the held-out splits."""
        raise NotImplementedError

    @classmethod
    def head_arguments(cls, facts: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of `builder` beside the encoder's."""
        return {}

    @classmethod
    def network_from(cls, model: Mapping[str, Any], facts: Mapping[str, Any]) -> tf_keras.Model:
        from tfbigbatch.models import bert

        encoder = {"vocabulary_size": fact(facts, "vocabulary_size"), **cls.sizes_of(model)}
        network: tf_keras.Model = getattr(bert, cls.builder)(**cls.head_arguments(facts), **encoder)
        return network

    def loss(self) -> Any:
        import tf_keras

        return tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)
