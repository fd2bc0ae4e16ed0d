"""Fine-tuning of BERT on RACE (Lai et al. 2017): questions about a passage, with four answers each.

The data is RACE's folder or tar file; see `race.read`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tfbigbatch.data.finetuning import race
from tfbigbatch.tasks.bert_finetuning.base import FineTuning
from tfbigbatch.tasks.scores import race as race_scores


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
    builder = "chooser"
    source = "RACE's folder or tar file"

    @classmethod
    def quick_data(cls, data: Mapping[str, Any], data_dir: str | None) -> dict[str, Any]:
        questions = min(data["train_questions"] or 1_000, 1_000)
        return {**super().quick_data(data, data_dir), "train_questions": questions}

    def read_examples(self, data_dir: str | None, use_fake_data: bool) -> None:
        if use_fake_data:
            from tfbigbatch.data.finetuning import fake

            self.train, self.dev = fake.choices(len(race.OPTIONS))
            self.test = self.dev
            self._levels = {id(self.dev): np.resize(np.array(race.LEVELS), len(self.dev))}
            return
        from tfbigbatch.data.finetuning import inputs

        options = {name: self._data[name] for name in ("max_seq_length", "level")}
        questions = {"train": self._data["train_questions"], "dev": 0, "test": 0}
        (self.train, _), (self.dev, dev_levels), (self.test, test_levels) = (
            inputs.of_race(split, data_dir, self._tokenizer, questions=count, **options)
            for split, count in questions.items()
        )
        self._levels = {id(self.dev): dev_levels, id(self.test): test_levels}

    @classmethod
    def head_arguments(cls, facts: Mapping[str, Any]) -> dict[str, Any]:
        return {"choices": len(race.OPTIONS)}

    def scores(self, held_out: Any, outputs: np.ndarray) -> dict[str, float]:
        """Accuracies in percent, 'middle', 'high' and 'all'; `outputs` is float32 [examples, 4]."""
        found = race_scores.scores(held_out.labels, np.argmax(outputs, axis=-1), self._levels[id(held_out)])
        return {name: value for name, value in found.items() if name != "total"}
