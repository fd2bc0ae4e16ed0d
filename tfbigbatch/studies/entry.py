"""One row of a study to run: a config at several seeds."""

from __future__ import annotations

import copy
import dataclasses
import os

from ml_collections import ConfigDict


@dataclasses.dataclass(frozen=True)
class Entry:
    """One row to run: a config at several seeds.

    Attributes:
      name: of the row.
      config: from an experiment file.
      seeds: one run each.
      folder: run directories are MODEL_DIR/FOLDER/seed-SEED.
      tuned: how the recipe was found, for the table; empty for no words.
    """

    name: str
    config: ConfigDict
    seeds: tuple[int, ...]
    folder: str
    tuned: str = ""

    def config_at(self, seed: int) -> ConfigDict:
        """The config of the run at `seed`."""
        config = copy.deepcopy(self.config)
        config.seed = seed
        return config

    def directory(self, model_dir: str, seed: int) -> str:
        """The run directory at `seed`."""
        return os.path.join(model_dir, self.folder, f"seed-{seed}")
