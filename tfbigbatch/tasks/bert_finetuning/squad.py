"""SQuAD by a BERT (Rajpurkar et al. 2016, 2018): answers that are a part of the paragraph, v1.1 and v2.

The data is a folder with the JSON files of `data.train_file` and `data.evaluation_file`; of each, some articles
alone may be taken.
"""

import os

import tf_keras

from tfbigbatch.data.finetuning import fake, squad, squad_decoding, squad_questions
from tfbigbatch.errors import InputError
from tfbigbatch.models import bert
from tfbigbatch.tasks.bert_finetuning.base import FineTuning
from tfbigbatch.tasks.scores import squad as squad_scores


class BertSquad(FineTuning):
    __doc__ = f"""SQuAD. {FineTuning.__doc__}"""

    data_defaults = {
        "train_file": "train-v1.1.json",
        "evaluation_file": "dev-v1.1.json",
        # Of each file's articles those of [first, last); a last of 0: to the end.
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
        # SQuAD v2: whether a question may have no answer, and the odds above which it has none.
        "no_answer": False,
        "no_answer_threshold": 0.0,
    }
    target = "f1"
    evaluates_on = ("dev",)
    data_decides = "nothing"

    def read(self, data_dir, use_fake_data):
        data = self._data
        lengths = {name: data[name] for name in ("max_seq_length", "doc_stride", "max_query_length")}
        if use_fake_data:
            train, held_out = fake.questions(no_answer=data["no_answer"])
            lengths = {"max_seq_length": fake.MAX_SEQ_LENGTH, "doc_stride": 16, "max_query_length": 8}
        elif data_dir is None:
            raise InputError("--data_dir is missing: give a folder with SQuAD's JSON files.")
        else:
            train, held_out = (
                squad_questions.read(
                    os.path.join(data_dir, data[f"{part}_file"]),
                    data[f"first_{part}_article"],
                    data[f"last_{part}_article"] or None,
                )
                for part in ("train", "evaluation")
            )
        self._windows = squad.windows(held_out, self._tokenizer, **lengths)
        self.train = squad.windows(train, self._tokenizer, **lengths).training_features(f"{data_dir}, train")
        self.dev = self._windows.evaluation_features(f"{data_dir}, dev")

    def head(self, **sizes):
        return bert.span_finder(**sizes)

    def loss(self):
        """The losses of the two positions, whose sum is trained."""
        return {
            name: tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True, name=f"{name}_nats")
            for name in ("start_positions", "end_positions")
        }

    def metrics(self):
        """None, for each output: what counts is `scores`."""
        return {"start_positions": [], "end_positions": []}

    def scores(self, held_out, outputs):
        """SQuAD's 'exact_match' and 'f1', in percent; of v2 also those of its two kinds of questions.

        Args:
          held_out: the set that was evaluated.
          outputs: dictionary of float32 [windows, T], the network's.
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
        texts = squad_questions.answer_texts(self._windows.questions)
        if data["no_answer"]:
            found = squad_scores.scores_with_no_answer(texts, answers.predictions, answers.no_answer_odds)
        else:
            found = squad_scores.scores(texts, answers.predictions)
        return {name: value for name, value in found.items() if not name.endswith(("total", "unanswered"))}
