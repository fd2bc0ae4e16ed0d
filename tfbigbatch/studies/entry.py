"""One row of a table that is to be run: a config at several seeds, and where its runs lie."""

import copy
import dataclasses
import os


@dataclasses.dataclass(frozen=True)
class Entry:
    """A config at several seeds.

    Attributes:
      name: of the row.
      config: ml_collections.ConfigDict, from an experiment file.
      seeds: ints; each is a run.
      folder: run directories are MODEL_DIR/FOLDER/seed-SEED.
      tuned: words on how the recipe was found, for the table; empty for none.
    """

    name: str
    config: object
    seeds: tuple
    folder: str
    tuned: str = ""

    def config_at(self, seed):
        """The config of the run at `seed`."""
        config = copy.deepcopy(self.config)
        config.seed = seed
        return config

    def directory(self, model_dir, seed):
        """The run directory at `seed`."""
        return os.path.join(model_dir, self.folder, f"seed-{seed}")
