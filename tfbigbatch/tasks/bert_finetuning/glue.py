"""Fine-tuning of BERT on GLUE's nine tasks (Wang et al. 2019): classes or a similarity of texts and pairs of texts.

The data is GLUE's folder, with a folder for each task; `data.task` names one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tfbigbatch.data.finetuning import glue
from tfbigbatch.tasks.base import fact
from tfbigbatch.tasks.bert_finetuning.base import FineTuning
from tfbigbatch.tasks.scores import glue as glue_scores


class BertGlue(FineTuning):
    """One of GLUE's tasks; 'dev' is MNLI's matched development set, 'dev_mismatched' its mismatched one."""

    head_defaults = {"pooling": "first"}
    data_defaults = {"task": "SST-2", "vocab_file": "", "lower_case": True, "max_seq_length": 128}
    evaluates_on = ("dev", "dev_mismatched")
    builder = "classifier"
    source = "GLUE's folder, with a folder for each task"

    def read_examples(self, data_dir: str | None, use_fake_data: bool) -> None:
        name = self._data["task"]
        classes = glue.task(name).classes
        self._classes = 1 if classes is None else len(classes)
        self.data_signature = f"{self._classes} outputs"
        self.network_facts = {**self.network_facts, "classes": self._classes}
        others: list[Any] = []
        if use_fake_data:
            from tfbigbatch.data.finetuning import fake

            self.train, self.dev = fake.pairs(None if classes is None else len(classes))
        else:
            from tfbigbatch.data.finetuning import inputs

            splits = ("train", "dev_matched", "dev_mismatched") if name == "MNLI" else ("train", "dev")
            length = self._data["max_seq_length"]
            self.train, self.dev, *others = (
                inputs.of_glue(name, split, data_dir, self._tokenizer, max_seq_length=length) for split in splits
            )
        self.dev_mismatched = others[0] if others else self.dev

    @classmethod
    def head_arguments(cls, facts: Mapping[str, Any]) -> dict[str, Any]:
        return {"classes": fact(facts, "classes")}

    def loss(self) -> Any:
        """The loss: cross entropy of logits, or squared error of a similarity."""
        import tf_keras

        return tf_keras.losses.MeanSquaredError() if self._classes == 1 else super().loss()

    def scores(self, held_out: Any, outputs: np.ndarray) -> dict[str, float]:
        """GLUE's metrics of the task and 'score', their mean, in percent; `outputs` is float32 [examples, classes]."""
        predictions = outputs[:, 0] if self._classes == 1 else np.argmax(outputs, axis=-1)
        return glue_scores.scores(self._data["task"], held_out.labels, predictions)
