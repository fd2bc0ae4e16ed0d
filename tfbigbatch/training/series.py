"""Several experiments at several seeds, one after the other in one process; resumable."""

import copy
import os

from tfbigbatch.errors import DivergedError
from tfbigbatch.training import run_directory


def run_series(entries, *, seeds, model_dir, data_dir=None, run):
    """Runs every entry at every seed, each in its own run directory; finished ones are not run again.

    Args:
      entries: list of (name, config).
      seeds: list of ints.
      model_dir: run directories are model_dir/NAME/seed-SEED.
      run: `tfbigbatch.train.run`.

    Returns:
      List of rows, one an entry: name, config, directories and results, one result a seed.
    """
    rows = []
    total = len(entries) * len(seeds)
    for name, config in entries:
        directories, results = [], []
        for seed in seeds:
            seeded = copy.deepcopy(config)
            seeded.seed = seed
            directory = os.path.join(model_dir, name, f"seed-{seed}")
            number = len(rows) * len(seeds) + len(results) + 1
            print(f"\n[{number}/{total}] {name}, seed {seed}", flush=True)
            try:
                result = run(seeded, model_dir=directory, data_dir=data_dir)
            except DivergedError as error:
                print(f"{error}", flush=True)
                result = run_directory.RunDirectory(directory).status()
            directories.append(directory)
            results.append(result)
        rows.append({"name": name, "config": config, "directories": directories, "results": results})
    return rows
