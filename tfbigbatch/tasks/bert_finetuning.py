"""Fine-tuning of BERT on GLUE, RACE and SQuAD, measured by their official scores in percent."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tfbigbatch.data.finetuning import glue, race, squad
from tfbigbatch.data.tokenizer import Tokenizer, Vocabulary
from tfbigbatch.errors import InputError
from tfbigbatch.tasks import scores
from tfbigbatch.tasks.bert import BertTask
from tfbigbatch.utils.home import expanded

if TYPE_CHECKING:
    import keras


VOCABULARY = "vocab.txt"
"""The file of a run directory with the tokens, in id order."""


class FineTuning(BertTask):
    """Fine-tuning on a labelled data set. A subclass defines `builder` and `scores`, and reads its examples too."""

    target = "score"
    has_scores = True

    @classmethod
    def quick_data(cls, data: Mapping[str, Any], data_dir: str | None) -> dict[str, Any]:
        return {"max_seq_length": min(data["max_seq_length"], 128)}

    def read(self, data: Mapping[str, Any], data_dir: str | None, use_fake_data: bool) -> None:
        self._data = data
        if use_fake_data:
            from tfbigbatch.data.finetuning import fake

            self._tokenizer = fake.tokenizer()
        else:
            file = data["vocab_file"]
            if not os.path.isfile(expanded(file)):
                raise InputError(f"data.vocab_file={file}: no such file; give the vocab.txt of the pretrained model.")
            self._tokenizer = Tokenizer(Vocabulary.load(file), data["lower_case"])
        vocabulary = self._tokenizer.vocabulary
        # With the vocabulary, a run directory is enough to use the trained model on texts.
        self.run_files = {VOCABULARY: vocabulary.content}
        self.network_facts = {"vocabulary_size": len(vocabulary)}

    def loss(self) -> Any:
        import keras

        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


class BertGlue(FineTuning):
    """One of GLUE's nine tasks (Wang et al. 2019): classes or a similarity of texts and pairs of texts.

    'dev' is MNLI's matched development set, 'dev_mismatched' its mismatched one.
    """

    head_defaults = {"pooling": "first"}
    data_defaults = {"task": "SST-2", "vocab_file": "", "lower_case": True, "max_seq_length": 128}
    evaluates_on = ("dev", "dev_mismatched")
    builder = "classifier"
    facts = ("vocabulary_size", "classes")

    def read(self, data: Mapping[str, Any], data_dir: str | None, use_fake_data: bool) -> None:
        from tfbigbatch.data.finetuning import fake, inputs

        super().read(data, data_dir, use_fake_data)
        name = data["task"]
        classes = glue.task(name).classes
        self._classes = 1 if classes is None else len(classes)
        self.data_signature = f"{self._classes} outputs"
        self.network_facts = {**self.network_facts, "classes": self._classes}
        others: list[Any] = []
        if use_fake_data:
            self.train, self.dev = fake.pairs(None if classes is None else len(classes))
        else:
            splits = ("train", "dev_matched", "dev_mismatched") if name == "MNLI" else ("train", "dev")
            length = data["max_seq_length"]
            self.train, self.dev, *others = (
                inputs.of_glue(name, split, data_dir, self._tokenizer, max_seq_length=length) for split in splits
            )
        self.dev_mismatched = others[0] if others else self.dev

    def loss(self) -> Any:
        """The loss: cross entropy of logits, or squared error of a similarity."""
        import keras

        return keras.losses.MeanSquaredError() if self._classes == 1 else super().loss()

    def scores(self, held_out: Any, outputs: np.ndarray) -> dict[str, float]:
        """GLUE's metrics of the task and 'score', their mean, in percent; `outputs` is float32 [examples, classes]."""
        predictions = outputs[:, 0] if self._classes == 1 else np.argmax(outputs, axis=-1)
        return scores.glue(self._data["task"], held_out.labels, predictions)


class BertRace(FineTuning):
    """RACE (Lai et al. 2017): questions about a passage, with four answers each."""

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
    facts = ("vocabulary_size", "choices")

    @classmethod
    def quick_data(cls, data: Mapping[str, Any], data_dir: str | None) -> dict[str, Any]:
        questions = min(data["train_questions"] or 1_000, 1_000)
        return {**super().quick_data(data, data_dir), "train_questions": questions}

    def read(self, data: Mapping[str, Any], data_dir: str | None, use_fake_data: bool) -> None:
        from tfbigbatch.data.finetuning import fake, inputs

        super().read(data, data_dir, use_fake_data)
        self.network_facts = {**self.network_facts, "choices": len(race.OPTIONS)}
        if use_fake_data:
            self.train, self.dev = fake.choices(len(race.OPTIONS))
            self.test = self.dev
            self._levels = {id(self.dev): np.resize(np.array(race.LEVELS), len(self.dev))}
            return
        options = {name: data[name] for name in ("max_seq_length", "level")}
        questions = {"train": data["train_questions"], "dev": 0, "test": 0}
        (self.train, _), (self.dev, dev_levels), (self.test, test_levels) = (
            inputs.of_race(split, data_dir, self._tokenizer, questions=count, **options)
            for split, count in questions.items()
        )
        self._levels = {id(self.dev): dev_levels, id(self.test): test_levels}

    def scores(self, held_out: Any, outputs: np.ndarray) -> dict[str, float]:
        """Accuracies in percent, 'middle', 'high' and 'all'; `outputs` is float32 [examples, 4]."""
        found = scores.race(held_out.labels, np.argmax(outputs, axis=-1), self._levels[id(held_out)])
        return {name: value for name, value in found.items() if name != "total"}


class BertSquad(FineTuning):
    """SQuAD v1.1 and v2 (Rajpurkar et al. 2016, 2018): answers that are spans of a paragraph."""

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

    @classmethod
    def quick_data(cls, data: Mapping[str, Any], data_dir: str | None) -> dict[str, Any]:
        # All articles take minutes to tokenize.
        last = {}
        for part, count in (("train", 20), ("evaluation", 2)):
            stop = data[f"first_{part}_article"] + count
            last[f"last_{part}_article"] = min(data[f"last_{part}_article"] or stop, stop)
        return {**super().quick_data(data, data_dir), "doc_stride": min(data["doc_stride"], 32), **last}

    def read(self, data: Mapping[str, Any], data_dir: str | None, use_fake_data: bool) -> None:
        from tfbigbatch.data.finetuning import fake, inputs

        super().read(data, data_dir, use_fake_data)
        lengths = {name: data[name] for name in ("max_seq_length", "doc_stride", "max_query_length")}
        if use_fake_data:
            train, held_out = fake.questions(no_answer=data["no_answer"])
            lengths = {"max_seq_length": fake.MAX_SEQ_LENGTH, "doc_stride": 16, "max_query_length": 8}
        else:
            train, held_out = (
                squad.read(
                    os.path.join(data_dir or "", expanded(data[f"{part}_file"])),
                    data[f"first_{part}_article"],
                    data[f"last_{part}_article"] or None,
                )
                for part in ("train", "evaluation")
            )
        self._windows = squad.windows(held_out, self._tokenizer, **lengths)
        self.train = inputs.to_train(squad.windows(train, self._tokenizer, **lengths), f"{data_dir}, train")
        self.dev = inputs.to_evaluate(self._windows, f"{data_dir}, dev")

    def loss(self) -> dict[str, keras.losses.Loss]:
        """The losses of the start and end positions; their sum is trained."""
        import keras

        return {
            name: keras.losses.SparseCategoricalCrossentropy(from_logits=True, name=f"{name}_nats")
            for name in ("start_positions", "end_positions")
        }

    def metrics(self) -> dict[str, list[keras.metrics.Metric]]:
        return {"start_positions": [], "end_positions": []}

    def scores(self, held_out: Any, outputs: dict[str, np.ndarray]) -> dict[str, float]:
        """SQuAD's 'exact_match' and 'f1' in percent; for v2 also those of its two kinds of questions.

        Args:
          outputs: 'start_positions' and 'end_positions', each float32 [windows, T].
        """
        data = self._data
        predictions, _ = squad.decode(
            self._windows,
            outputs["start_positions"],
            outputs["end_positions"],
            n_best_size=data["n_best_size"],
            max_answer_length=data["max_answer_length"],
            no_answer=data["no_answer"],
            threshold=data["no_answer_threshold"],
        )
        texts = squad.answer_texts(self._windows.questions)
        found = scores.squad(texts, predictions, no_answer=data["no_answer"])
        return {name: value for name, value in found.items() if not name.endswith(("total", "unanswered"))}
