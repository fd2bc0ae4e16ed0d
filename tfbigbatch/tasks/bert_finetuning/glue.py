"""Fine-tuning of BERT on GLUE's nine tasks (Wang et al. 2019): classes or a similarity of texts and pairs of texts.

The data is GLUE's folder, with a folder for each task; `data.task` names one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tfbigbatch.data.finetuning import glue
from tfbigbatch.errors import InputError
from tfbigbatch.tasks.base import fact
from tfbigbatch.tasks.bert_finetuning.base import FineTuning
from tfbigbatch.tasks.scores import glue as glue_scores

if TYPE_CHECKING:
    import tf_keras


class BertGlue(FineTuning):
    """One of GLUE's tasks; 'dev' is MNLI's matched development set, 'dev_mismatched' its mismatched one."""

    head_defaults = {"pooling": "first"}
    data_defaults = {"task": "SST-2", "vocab_file": "", "lower_case": True, "max_seq_length": 128}
    evaluates_on = ("dev", "dev_mismatched")

    @classmethod
    def quick_data(cls, data: Mapping[str, Any], data_dir: str | None) -> dict[str, Any]:
        return {"max_seq_length": min(data["max_seq_length"], 128)}

    @classmethod
    def check_data(cls, data: Mapping[str, Any], data_dir: str | None) -> None:
        super().check_data(data, data_dir)
        if data_dir is None:
            raise InputError("--data_dir is missing: give GLUE's folder, with a folder for each task.")

    def read_examples(self, data_dir: str | None, use_fake_data: bool) -> None:
        name = self._data["task"]
        classes = glue.task(name).classes
        self._classes = 1 if classes is None else len(classes)
        self.data_signature = f"{self._classes} outputs"
        self.network_facts = {**self.network_facts, "classes": self._classes}
        if use_fake_data:
            from tfbigbatch.data.finetuning import fake

            self.train, self.dev = fake.pairs(None if classes is None else len(classes))
            self.dev_mismatched = self.dev
            return
        splits = ("train", "dev_matched", "dev_mismatched") if name == "MNLI" else ("train", "dev")
        self.train, self.dev, *others = (
            glue.load(name, split, data_dir, self._tokenizer, max_seq_length=self._data["max_seq_length"])
            for split in splits
        )
        self.dev_mismatched = others[0] if others else self.dev

    @classmethod
    def head(cls, facts: Mapping[str, Any], **sizes: Any) -> tf_keras.Model:
        from tfbigbatch.models import bert

        return bert.classifier(classes=fact(facts, "classes"), **sizes)

    def loss(self) -> tf_keras.losses.Loss:
        """The loss: cross entropy of logits, or squared error of a similarity."""
        import tf_keras

        if self._classes == 1:
            return tf_keras.losses.MeanSquaredError()
        return tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def scores(self, held_out: Any, outputs: np.ndarray) -> dict[str, float]:
        """GLUE's metrics of the task and 'score', their mean, in percent; `outputs` is float32 [examples, classes]."""
        predictions = outputs[:, 0] if self._classes == 1 else np.argmax(outputs, axis=-1)
        return glue_scores.scores(self._data["task"], held_out.labels, predictions)
