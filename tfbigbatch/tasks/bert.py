"""BERT's tasks: what pretraining and fine-tuning share, and pretraining on a prepared text.

The data of pretraining is a folder that prepare-bert wrote, or a folder of several of them, where `data.folder` names
one: phases of different sequence lengths read different ones.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from tfbigbatch.data.bert import fake
from tfbigbatch.data.bert import manifest as bert_manifest
from tfbigbatch.data.records import manifest as manifests
from tfbigbatch.errors import InputError
from tfbigbatch.models import sizes
from tfbigbatch.tasks import output_bias
from tfbigbatch.tasks.base import MINIVAL, Task, fact
from tfbigbatch.tasks.output_bias import ConstantLoss
from tfbigbatch.utils.home import expanded

if TYPE_CHECKING:
    import keras

    from tfbigbatch.data.dataset import Dataset


class BertTask(Task):
    """A task of a BERT model, which may start from a checkpoint (`model.init_checkpoint`; see `bert_checkpoints.read`).

    Values that the checkpoint lacks, such as a new head's, are random.
    """

    models = tuple(sizes.BERT_SIZES)
    head_defaults: ClassVar[Mapping[str, Any]] = {}
    """Fields of the model beside those of its size, with their defaults."""
    builder: ClassVar[str]
    """The function of `models.bert` that makes the network."""
    facts: ClassVar[Sequence[str]] = ("vocabulary_size",)
    """The names of the `network_facts`: arguments of that function."""
    smoke_sizes = {
        **{"layers": 1, "hidden_units": 8, "heads": 2, "inner_units": 16, "max_positions": 64},
        **{"name": "bert_tiny", "init_checkpoint": ""},
    }
    quick_sizes = {"layers": 2, "hidden_units": 128, "heads": 2, "inner_units": 512}
    metrics_in_training = False  # Over a vocabulary they cost as much as the loss.

    @classmethod
    def model_defaults_of(cls, name: str) -> dict[str, Any]:
        fields = {**sizes.bert_defaults(name), **cls.head_defaults}
        return {"name": name, **fields, "init_checkpoint": "", "recompute": False}

    @classmethod
    def quick_model(cls, model: Mapping[str, Any]) -> dict[str, Any]:
        if model["init_checkpoint"]:
            return {}  # Its sizes are those of the checkpoint.
        return super().quick_model(model)

    def __init__(
        self, *, model: Mapping[str, Any], data: Mapping[str, Any], data_dir: str | None, use_fake_data: bool
    ) -> None:
        self._model = dict(model)
        self._init_checkpoint: str = model["init_checkpoint"]
        self.read(data, data_dir, use_fake_data)

    def read(self, data: Mapping[str, Any], data_dir: str | None, use_fake_data: bool) -> None:
        """Reads the data into `train` and the held-out splits; the arguments are those of the task."""
        raise NotImplementedError

    def initialize(self, network: keras.Model) -> None:
        """Sets initial values of a random network by the data; a checkpoint replaces what it has."""

    @classmethod
    def network_from(cls, model: Mapping[str, Any], facts: Mapping[str, Any]) -> keras.Model:
        from tfbigbatch.models import bert

        given = {name: value for name, value in model.items() if name not in ("name", "init_checkpoint", "output_bias")}
        arguments = {name: fact(facts, name) for name in cls.facts}
        network: keras.Model = getattr(bert, cls.builder)(**arguments, **given)
        return network

    def network(self) -> keras.Model:
        from tfbigbatch.models import bert_checkpoints

        network = self.network_from(self._model, self.network_facts)
        self.initialize(network)
        path = self._init_checkpoint
        if path:
            bert_checkpoints.assign(network, bert_checkpoints.read(path), f"model.init_checkpoint={path}")
        return network


class BertPretraining(BertTask):
    """BERT pretraining. The options of the data are those of `BertRecords`.

    `data.minival`: the last of the training sequences, as many, are the held-out split 'minival'.

    The loss is the sum of two means: nats per masked token, and, where the data has it, nats per next sentence. Each
    replica and micro-batch takes its own mean, as in the published trainers.

    `model.output_bias` is the initial bias of the masked words' logits, one of `output_bias.CHOICES`.
    """

    head_defaults = {"output_bias": output_bias.DEFAULT}
    builder = "pretrainer"
    facts = ("vocabulary_size", "next_sentence")
    data_defaults = {
        "folder": "",
        "whole_word": False,
        "masked_fraction": 0.15,
        "shuffle_window": 65536,
        "max_bad_fraction": 0.0,
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

    def read(self, data: Mapping[str, Any], data_dir: str | None, use_fake_data: bool) -> None:
        from tfbigbatch.data.bert.dataset import BertRecords

        if use_fake_data:
            # Lives as long as the task: its records are read from it.
            self._made_up = tempfile.TemporaryDirectory()
            manifest = fake.pretraining(self._made_up.name)
        else:
            if data_dir and data["folder"]:
                data_dir = os.path.join(data_dir, expanded(data["folder"]))
            manifest = bert_manifest.load(data_dir)
        if "validation" not in manifest.splits:
            raise InputError(
                f"--data_dir={data_dir} has no validation split. Prepare the text with --validation_fraction above 0."
            )
        if manifest.max_seq_length > self._model["max_positions"]:
            raise InputError(
                f"model.max_positions={self._model['max_positions']}: the data has sequences of "
                f"{manifest.max_seq_length} tokens."
            )
        self._output_bias = output_bias.OutputBias(
            self._model["output_bias"], manifest, built="zero", scale=sizes.BERT_INITIAL_DEVIATION
        )
        self._next_sentence = bool(manifest.next_sentence)
        vocabulary_size = len(manifest.vocabulary)
        pairs = "pairs" if self._next_sentence else "no pairs"
        self.data_signature = f"{vocabulary_size:,} tokens and {pairs} of segments"
        self.network_facts = {"vocabulary_size": vocabulary_size, "next_sentence": self._next_sentence}
        options = {name: value for name, value in data.items() if name not in ("folder", MINIVAL)}
        made_up = manifest.splits["train"].examples // 4
        held_out = min(data[MINIVAL], made_up) if use_fake_data else data[MINIVAL]
        splits = manifests.with_minival(manifest.splits, held_out)
        read = {name: BertRecords(split, manifest, **options) for name, split in splits.items()}
        self.train, self.validation, self.minival = read["train"], read["validation"], read.get(MINIVAL)
        self.checks = tuple(records.bad.check for records in read.values())

    def initialize(self, network: keras.Model) -> None:
        self._output_bias.initialize(network.get_layer("masked_lm_head").bias)

    def banner_lines(self) -> list[str]:
        # A checkpoint replaces the initial bias, but where it lacks this head.
        return [] if self._init_checkpoint else [self._output_bias.line]

    def constant_loss(self) -> ConstantLoss:
        # With two outputs the loss itself is their sum, and Keras logs each beside it.
        return ConstantLoss("masked_lm_loss" if self._next_sentence else "loss", self._output_bias.counts)

    def loss(self) -> dict[str, keras.losses.Loss]:
        """The losses of the outputs; their sum is trained."""
        from tfbigbatch.tasks.losses import SmoothedTokenCrossEntropy

        names = ("masked_lm", "next_sentence") if self._next_sentence else ("masked_lm",)
        return {name: SmoothedTokenCrossEntropy(0.0, "tokens", name=f"{name}_nats") for name in names}

    def metrics(self) -> dict[str, list[keras.metrics.Metric]]:
        import keras

        from tfbigbatch.tasks.losses import token_metrics

        accuracy = keras.metrics.SparseCategoricalAccuracy
        # Keras prefixes a metric's name with its output's only where there are several outputs.
        if not self._next_sentence:
            return {"masked_lm": [accuracy(name="masked_lm_accuracy"), *token_metrics("masked_lm_")]}
        masked = [accuracy(name="accuracy"), *token_metrics()]
        return {"masked_lm": masked, "next_sentence": [accuracy(name="accuracy")]}
