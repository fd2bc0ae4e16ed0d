"""What the fine-tuning tasks of BERT share: the tokenizer, and scores in place of metrics."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tfbigbatch.data import tokenizer
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

    A subclass defines `read_examples`, `head`, `loss` and `scores`.
    """

    target = "score"
    has_scores = True

    @classmethod
    def check_data(cls, data: Mapping[str, Any], data_dir: str | None) -> None:
        del data_dir
        _check_vocabulary(data)

    def read(self, data: Mapping[str, Any], data_dir: str | None, use_fake_data: bool) -> None:
        self._data = data
        if use_fake_data:
            from tfbigbatch.data.finetuning import fake

            self._tokenizer = fake.tokenizer()
        else:
            self._tokenizer = _tokenizer_of(data)
        tokens = self._tokenizer.vocabulary.tokens
        # With the vocabulary, a run directory is enough to use the trained model on texts.
        self.run_files = {VOCABULARY: "".join(f"{token}\n" for token in tokens).encode()}
        self.network_facts = {"vocabulary_size": len(tokens)}
        self.read_examples(data_dir, use_fake_data)

    def read_examples(self, data_dir: str | None, use_fake_data: bool) -> None:
        """Reads the examples into `train` and the held-out splits."""
        raise NotImplementedError

    @classmethod
    def head(cls, facts: Mapping[str, Any], **sizes: Any) -> tf_keras.Model:
        """The Keras model with random initial values, from token ids to logits; `sizes` as the encoder's arguments."""
        raise NotImplementedError

    @classmethod
    def network_from(cls, model: Mapping[str, Any], facts: Mapping[str, Any]) -> tf_keras.Model:
        return cls.head(facts, vocabulary_size=fact(facts, "vocabulary_size"), **cls.sizes_of(model))


def _tokenizer_of(data: Mapping[str, Any]) -> tokenizer.Tokenizer:
    _check_vocabulary(data)
    return tokenizer.Tokenizer(tokenizer.Vocabulary.load(expanded(data["vocab_file"])), data["lower_case"])


def _check_vocabulary(data: Mapping[str, Any]) -> None:
    file = data["vocab_file"]
    if not file:
        raise InputError("data.vocab_file is missing: give the vocab.txt that the model was pretrained with.")
    if not os.path.isfile(expanded(file)):
        raise InputError(f"data.vocab_file={file}: no such file; give the vocab.txt of the pretrained model.")
