"""The base of pretraining and fine-tuning: the sizes of BERT, its config fields, and its initial values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from tfbigbatch.models import sizes
from tfbigbatch.tasks.base import Task

if TYPE_CHECKING:
    import tf_keras


class BertTask(Task):
    """A task of a BERT model, which may start from a checkpoint (`model.init_checkpoint`; see `bert_checkpoints.read`).

    Values that the checkpoint lacks, such as a new head's, are random.
    """

    models = tuple(sizes.BERT_SIZES)
    head_defaults: ClassVar[Mapping[str, Any]] = {}
    """Fields of the model beside those of its size, with their defaults."""
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

    @classmethod
    def sizes_of(cls, model: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of the config's `model` that are arguments of the network."""
        return {name: value for name, value in model.items() if name not in ("name", "init_checkpoint", "output_bias")}

    def __init__(
        self, *, model: Mapping[str, Any], data: Mapping[str, Any], data_dir: str | None, use_fake_data: bool
    ) -> None:
        self._model = dict(model)
        self._init_checkpoint: str = model["init_checkpoint"]
        self.read(data, data_dir, use_fake_data)

    def read(self, data: Mapping[str, Any], data_dir: str | None, use_fake_data: bool) -> None:
        """Reads the data into `train` and the held-out splits; the arguments are those of the task."""
        raise NotImplementedError

    def initialize(self, network: tf_keras.Model) -> None:
        """Sets initial values of a random network by the data; a checkpoint replaces what it has."""

    def network(self) -> tf_keras.Model:
        from tfbigbatch.models import bert_checkpoints

        network = self.network_from(self._model, self.network_facts)
        self.initialize(network)
        bert_checkpoints.load_into(network, self._init_checkpoint)
        return network
