"""RACE by a BERT (Lai et al. 2017): questions about a passage, with four answers each.

The data is RACE's folder or tar file; see `race_passages.read`.
"""

import numpy as np
import tf_keras

from tfbigbatch.data.finetuning import fake, race, race_passages
from tfbigbatch.models import bert
from tfbigbatch.tasks.bert_finetuning.base import FineTuning
from tfbigbatch.tasks.scores import race as race_scores


class BertRace(FineTuning):
    __doc__ = f"""RACE. {FineTuning.__doc__}"""

    head_defaults = {"pooling": "first"}
    data_defaults = {
        "vocab_file": "",
        "lower_case": True,
        "max_seq_length": 512,
        # 'middle' or 'high' for the questions of such schools alone.
        "level": "all",
        # Of the training questions so many, evenly spaced; 0: all.
        "train_questions": 0,
    }
    target = "all"
    evaluates_on = ("dev", "test")
    data_decides = f"{len(race_passages.OPTIONS)} answers a question"

    def read(self, data_dir, use_fake_data):
        if use_fake_data:
            self.train, self.dev = fake.choices(len(race_passages.OPTIONS))
            self.test = self.dev
            levels = np.resize(np.array(race_scores.LEVELS), len(self.dev))
            self._levels = {id(self.dev): levels}
            return
        self._levels = {}
        for split in ("train", *self.evaluates_on):
            features, levels = race.load(
                split,
                data_dir,
                self._tokenizer,
                max_seq_length=self._data["max_seq_length"],
                level=self._data["level"],
                questions=self._data["train_questions"] if split == "train" else 0,
            )
            setattr(self, split, features)
            self._levels[id(features)] = levels

    def head(self, **sizes):
        return bert.chooser(choices=len(race_passages.OPTIONS), **sizes)

    def loss(self):
        """The loss that is trained, of logits."""
        return tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def scores(self, held_out, outputs):
        """Accuracies in percent: 'middle', 'high' and 'all'.

        Args:
          held_out: the set that was evaluated.
          outputs: float32 [examples, 4], the network's.
        """
        found = race_scores.scores(held_out.labels, np.argmax(outputs, axis=-1), self._levels[id(held_out)])
        return {name: value for name, value in found.items() if name != "total"}
