"""Fine-tuning of BERT on RACE (Lai et al. 2017): questions about a passage, with four answers each.

The data is RACE's folder or tar file; see `race.read`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tfbigbatch.data.finetuning import race
from tfbigbatch.errors import InputError
from tfbigbatch.tasks.bert_finetuning.base import FineTuning
from tfbigbatch.tasks.scores import race as race_scores

if TYPE_CHECKING:
    import tf_keras


class BertRace(FineTuning):
    """RACE."""

    head_defaults = {"pooling": "first"}
    data_defaults = {
        "vocab_file": "",
        "lower_case": True,
        "max_seq_length": 512,
        # 'middle' or 'high' for the questions of these schools only.
        "level": "all",
        # Number of training questions, evenly spaced; 0: all.
        "train_questions": 0,
    }
    target = "all"
    evaluates_on = ("dev", "test")
    data_signature = f"{len(race.OPTIONS)} answers a question"

    @classmethod
    def quick_data(cls, data: Mapping[str, Any], data_dir: str | None) -> dict[str, Any]:
        return {
            "max_seq_length": min(data["max_seq_length"], 128),
            "train_questions": min(data["train_questions"] or 1_000, 1_000),
        }

    @classmethod
    def check_data(cls, data: Mapping[str, Any], data_dir: str | None) -> None:
        super().check_data(data, data_dir)
        if data_dir is None:
            raise InputError("--data_dir is missing: give RACE's folder or tar file.")

    def read_examples(self, data_dir: str | None, use_fake_data: bool) -> None:
        if use_fake_data:
            from tfbigbatch.data.finetuning import fake

            self.train, self.dev = fake.choices(len(race.OPTIONS))
            self.test = self.dev
            self._levels = {id(self.dev): np.resize(np.array(race_scores.LEVELS), len(self.dev))}
            return
        self.train, _ = self._load("train", data_dir, self._data["train_questions"])
        self.dev, dev_levels = self._load("dev", data_dir)
        self.test, test_levels = self._load("test", data_dir)
        self._levels = {id(self.dev): dev_levels, id(self.test): test_levels}

    def _load(self, split: str, data_dir: str | None, questions: int = 0) -> tuple[Any, np.ndarray]:
        return race.load(
            split,
            data_dir,
            self._tokenizer,
            max_seq_length=self._data["max_seq_length"],
            level=self._data["level"],
            questions=questions,
        )

    @classmethod
    def head(cls, facts: Mapping[str, Any], **sizes: Any) -> tf_keras.Model:
        from tfbigbatch.models import bert

        return bert.chooser(choices=len(race.OPTIONS), **sizes)

    def loss(self) -> tf_keras.losses.Loss:
        import tf_keras

        return tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def scores(self, held_out: Any, outputs: np.ndarray) -> dict[str, float]:
        """Accuracies in percent, 'middle', 'high' and 'all'; `outputs` is float32 [examples, 4]."""
        found = race_scores.scores(held_out.labels, np.argmax(outputs, axis=-1), self._levels[id(held_out)])
        return {name: value for name, value in found.items() if name != "total"}
