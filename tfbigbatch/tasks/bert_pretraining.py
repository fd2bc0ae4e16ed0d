"""BERT pretraining on a prepared text: masked language modelling, and next sentence prediction where the data has it.

The data is a folder that prepare-bert wrote, or a folder of several of them, where `data.folder` names one:
phases of different sequence lengths read different ones.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tfbigbatch.data.bert import fake
from tfbigbatch.data.bert import manifest as bert_manifest
from tfbigbatch.data.records import manifest as manifests
from tfbigbatch.errors import InputError
from tfbigbatch.models.sizes import BERT_INITIAL_DEVIATION
from tfbigbatch.tasks import output_bias
from tfbigbatch.tasks.base import MINIVAL, fact
from tfbigbatch.tasks.bert import BertTask
from tfbigbatch.tasks.output_bias import ConstantLoss
from tfbigbatch.utils.home import expanded

if TYPE_CHECKING:
    import tf_keras

    from tfbigbatch.data.dataset import Dataset


class BertPretraining(BertTask):
    """BERT pretraining. The options of the data are those of `BertRecords`.

    `data.minival`: the last of the training sequences, as many, are the held-out split 'minival'.

    The loss is the sum of two means: nats per masked token, and, where the data has it, nats per next sentence. Each
    replica and micro-batch takes its own mean, as in the published trainers.

    `model.output_bias` is the initial bias of the masked words' logits: "frequency", log((c_i + 1) / sum_j (c_j + 1))
    of the counts c of the training tokens that can be masked; "zero", as published; or "uniform" in [-0.02, 0.02].
    """

    head_defaults = {"output_bias": output_bias.DEFAULT}
    data_defaults = {
        "folder": "",
        "whole_word": False,
        "masked_share": 0.15,
        "shuffle_window": 65536,
        "max_bad_share": 0.0,
        MINIVAL: 0,
    }
    evaluates_on = ("validation", MINIVAL)
    minival: Dataset | None = None
    target = "masked_lm_accuracy"

    @classmethod
    def quick_data(cls, data: Mapping[str, Any], data_dir: str | None) -> dict[str, Any]:
        # Phases read folders of their own; a text that was prepared to try has one.
        inside = data_dir and os.path.isdir(os.path.join(data_dir, data["folder"]))
        return {} if inside else {"folder": ""}

    def __init__(
        self, *, model: Mapping[str, Any], data: Mapping[str, Any], data_dir: str | None, use_fake_data: bool
    ) -> None:
        super().__init__(model=model, data=data, data_dir=data_dir, use_fake_data=use_fake_data)
        self._output_bias = output_bias.OutputBias(
            model["output_bias"],
            lambda: self._prepared.token_counts,
            built="zero",
            scale=BERT_INITIAL_DEVIATION,
        )

    def read(self, data: Mapping[str, Any], data_dir: str | None, use_fake_data: bool) -> None:
        from tfbigbatch.data.bert.dataset import BertRecords

        manifest = self._manifest(data["folder"], data_dir, use_fake_data)
        if "validation" not in manifest.splits:
            raise InputError(
                f"--data_dir={data_dir} has no validation split. Prepare the text with --validation_share above 0."
            )
        if manifest.max_seq_length > self._model["max_positions"]:
            raise InputError(
                f"model.max_positions={self._model['max_positions']}: the data has sequences of "
                f"{manifest.max_seq_length} tokens."
            )
        self._prepared = manifest
        self._next_sentence = manifest.next_sentence
        vocabulary_size = len(manifest.vocabulary)
        pairs = "pairs" if manifest.next_sentence else "no pairs"
        self.data_signature = f"{vocabulary_size:,} tokens and {pairs} of segments"
        self.network_facts = {
            "vocabulary_size": vocabulary_size,
            "next_sentence": bool(manifest.next_sentence),
        }
        options = {name: value for name, value in data.items() if name not in ("folder", MINIVAL)}
        made_up = manifest.splits["train"].examples // 4
        splits = manifests.with_minival(
            manifest.splits, min(data[MINIVAL], made_up) if use_fake_data else data[MINIVAL]
        )
        read = {name: BertRecords(split, manifest, **options) for name, split in splits.items()}
        self.train, self.validation, self.minival = read["train"], read["validation"], read.get(MINIVAL)
        self.checks = tuple(records.bad.check for records in read.values())

    def _manifest(self, folder: str, data_dir: str | None, use_fake_data: bool) -> Any:
        if use_fake_data:
            # Lives as long as the task: its records are read from it.
            self._made_up = tempfile.TemporaryDirectory()
            return fake.pretraining(self._made_up.name)
        return bert_manifest.load(_folder(folder, data_dir))

    @classmethod
    def check_data(cls, data: Mapping[str, Any], data_dir: str | None) -> None:
        manifests.require(_folder(data["folder"], data_dir), bert_manifest.KIND)

    @classmethod
    def network_from(cls, model: Mapping[str, Any], facts: Mapping[str, Any]) -> tf_keras.Model:
        from tfbigbatch.models import bert

        return bert.pretrainer(
            vocabulary_size=fact(facts, "vocabulary_size"),
            next_sentence=bool(fact(facts, "next_sentence")),
            **cls.sizes_of(model),
        )

    def initialize(self, network: tf_keras.Model) -> None:
        self._output_bias.initialize(network.get_layer("masked_lm_head").bias)

    def banner_lines(self) -> list[str]:
        # A checkpoint replaces the initial bias, but where it lacks this head.
        return [] if self._init_checkpoint else [self._output_bias.line]

    def constant_loss(self) -> ConstantLoss:
        # With two outputs the loss itself is their sum, and Keras logs each beside it.
        return ConstantLoss("masked_lm_loss" if self._next_sentence else "loss", self._output_bias.counts)

    def loss(self) -> dict[str, tf_keras.losses.Loss]:
        """The losses of the outputs; their sum is trained."""
        from tfbigbatch.tasks.losses import SmoothedTokenCrossEntropy

        return {name: SmoothedTokenCrossEntropy(0.0, "tokens", name=f"{name}_nats") for name in self._outputs()}

    def metrics(self) -> dict[str, list[tf_keras.metrics.Metric]]:
        import tf_keras

        from tfbigbatch.tasks.losses import token_metrics

        # Keras prefixes a metric's name with its output's only where there are several outputs.
        prefix = "" if self._next_sentence else "masked_lm_"
        found = {
            "masked_lm": [
                tf_keras.metrics.SparseCategoricalAccuracy(name=f"{prefix}accuracy"),
                *token_metrics(prefix),
            ],
            "next_sentence": [tf_keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
        }
        return {name: found[name] for name in self._outputs()}

    def _outputs(self) -> tuple[str, ...]:
        return ("masked_lm", "next_sentence") if self._next_sentence else ("masked_lm",)


def _folder(folder: str, data_dir: str | None) -> str | None:
    return os.path.join(data_dir, expanded(folder)) if data_dir and folder else data_dir
