"""GLUE's nine tasks by a BERT (Wang et al. 2019): texts and pairs of texts to classes, or to a similarity.

The data is GLUE's folder, with one folder a task; `data.task` names one.
"""

import numpy as np
import tf_keras

from tfbigbatch.data.finetuning import fake, glue, glue_rows
from tfbigbatch.models import bert
from tfbigbatch.tasks.bert_finetuning.base import FineTuning
from tfbigbatch.tasks.scores import glue as glue_scores


class BertGlue(FineTuning):
    __doc__ = f"""One of GLUE's tasks. {FineTuning.__doc__}"""

    head_defaults = {"pooling": "first"}
    data_defaults = {"task": "SST-2", "vocab_file": "", "lower_case": True, "max_seq_length": 128}
    # Of MNLI the matched; 'dev_mismatched' are its others.
    evaluates_on = ("dev", "dev_mismatched")

    def read(self, data_dir, use_fake_data):
        name = self._data["task"]
        classes = glue_rows.task(name).classes
        self._classes = 1 if classes is None else len(classes)
        self.data_decides = f"{self._classes} outputs"
        if use_fake_data:
            self.train, self.dev = fake.pairs(classes and len(classes))
            self.dev_mismatched = self.dev
            return

        def load(split):
            return glue.load(name, split, data_dir, self._tokenizer, max_seq_length=self._data["max_seq_length"])

        self.train = load("train")
        self.dev = load("dev_matched" if name == "MNLI" else "dev")
        self.dev_mismatched = load("dev_mismatched") if name == "MNLI" else self.dev

    def head(self, **sizes):
        return bert.classifier(classes=self._classes, **sizes)

    def loss(self):
        """The loss that is trained: of logits, or of a similarity."""
        if self._classes == 1:
            return tf_keras.losses.MeanSquaredError()
        return tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def scores(self, held_out, outputs):
        """GLUE's metrics of the task and 'score', their mean, in percent.

        Args:
          held_out: the set that was evaluated.
          outputs: float32 [examples, classes], the network's.
        """
        predictions = outputs[:, 0] if self._classes == 1 else np.argmax(outputs, axis=-1)
        return glue_scores.scores(self._data["task"], held_out.labels, predictions)
