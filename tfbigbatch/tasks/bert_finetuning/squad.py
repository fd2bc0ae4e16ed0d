"""Fine-tuning of BERT on SQuAD v1.1 and v2 (Rajpurkar et al. 2016, 2018): answers that are spans of a paragraph.

The data is a folder with the JSON files `data.train_file` and `data.evaluation_file`, or a range of their articles.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tfbigbatch.data.finetuning import squad, squad_decoding
from tfbigbatch.errors import InputError
from tfbigbatch.tasks.bert_finetuning.base import FineTuning
from tfbigbatch.tasks.scores import squad as squad_scores
from tfbigbatch.utils.home import expanded

if TYPE_CHECKING:
    import tf_keras


class BertSquad(FineTuning):
    """SQuAD."""

    data_defaults = {
        "train_file": "train-v1.1.json",
        "evaluation_file": "dev-v1.1.json",
        # The articles [first, last) of each file; a last of 0: to the end.
        "first_train_article": 0,
        "last_train_article": 0,
        "first_evaluation_article": 0,
        "last_evaluation_article": 0,
        "vocab_file": "",
        "lower_case": True,
        "max_seq_length": 384,
        "doc_stride": 128,
        "max_query_length": 64,
        "n_best_size": 20,
        "max_answer_length": 30,
        # SQuAD v2: a question may have no answer, and the odds of none above which the prediction is empty.
        "no_answer": False,
        "no_answer_threshold": 0.0,
    }
    target = "f1"
    evaluates_on = ("dev",)
    builder = "span_finder"
    source = "a folder with SQuAD's JSON files"

    @classmethod
    def quick_data(cls, data: Mapping[str, Any], data_dir: str | None) -> dict[str, Any]:
        # All articles take minutes to tokenize.
        last = {f"last_{part}_article": _last(data, part, count) for part, count in (("train", 20), ("evaluation", 2))}
        return {**super().quick_data(data, data_dir), "doc_stride": min(data["doc_stride"], 32), **last}

    @classmethod
    def check_data(cls, data: Mapping[str, Any], data_dir: str | None) -> None:
        super().check_data(data, data_dir)
        for part in ("train", "evaluation"):
            path = _file(data, data_dir or "", part)
            if not os.path.isfile(path):
                raise InputError(f"{path}: no such file. Give a --data_dir with SQuAD's JSON files, or their names.")

    def read_examples(self, data_dir: str | None, use_fake_data: bool) -> None:
        from tfbigbatch.data.finetuning import fake, inputs

        data = self._data
        lengths = {name: data[name] for name in ("max_seq_length", "doc_stride", "max_query_length")}
        if use_fake_data:
            train, held_out = fake.questions(no_answer=data["no_answer"])
            lengths = {"max_seq_length": fake.MAX_SEQ_LENGTH, "doc_stride": 16, "max_query_length": 8}
        else:
            train, held_out = (
                squad.read(
                    _file(data, data_dir or "", part),
                    data[f"first_{part}_article"],
                    data[f"last_{part}_article"] or None,
                )
                for part in ("train", "evaluation")
            )
        self._windows = squad.windows(held_out, self._tokenizer, **lengths)
        self.train = inputs.to_train(squad.windows(train, self._tokenizer, **lengths), f"{data_dir}, train")
        self.dev = inputs.to_evaluate(self._windows, f"{data_dir}, dev")

    def loss(self) -> dict[str, tf_keras.losses.Loss]:
        """The losses of the start and end positions; their sum is trained."""
        import tf_keras

        return {
            name: tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True, name=f"{name}_nats")
            for name in ("start_positions", "end_positions")
        }

    def metrics(self) -> dict[str, list[tf_keras.metrics.Metric]]:
        return {"start_positions": [], "end_positions": []}

    def scores(self, held_out: Any, outputs: dict[str, np.ndarray]) -> dict[str, float]:
        """SQuAD's 'exact_match' and 'f1' in percent; for v2 also those of its two kinds of questions.

        Args:
          outputs: 'start_positions' and 'end_positions', each float32 [windows, T].
        """
        del held_out
        data = self._data
        answers = squad_decoding.decode(
            self._windows,
            outputs["start_positions"],
            outputs["end_positions"],
            n_best_size=data["n_best_size"],
            max_answer_length=data["max_answer_length"],
            no_answer=data["no_answer"],
            threshold=data["no_answer_threshold"],
        )
        texts = squad.answer_texts(self._windows.questions)
        odds = answers.no_answer_odds if data["no_answer"] else None
        found = squad_scores.scores(texts, answers.predictions, no_answer=data["no_answer"], odds=odds)
        return {name: value for name, value in found.items() if not name.endswith(("total", "unanswered"))}


def _file(data: Mapping[str, Any], data_dir: str, part: str) -> str:
    """The path of the JSON file of 'train' or 'evaluation'."""
    return os.path.join(data_dir, expanded(data[f"{part}_file"]))


def _last(data: Mapping[str, Any], part: str, count: int) -> int:
    """The article before which a quick run stops to read: `count` from the first, or the config's own."""
    stop: int = data[f"first_{part}_article"] + count
    return min(data[f"last_{part}_article"] or stop, stop)
