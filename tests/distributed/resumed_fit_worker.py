"""One worker of a cluster that trains with ExactResume.

`python -m tests.distributed.resumed_fit_worker DIRECTORY KERAS RUN [STEP]` trains in DIRECTORY/RUN, and leaves
worker0.npz and so on there, or kills itself after STEP batches.
"""

import os
import sys
import time

import numpy as np

from tests.helpers import resumed_fit
from tfbigbatch.cluster.tf_config import parse_tf_config
from tfbigbatch.training import strategy as strategies


def leave():
    # The other worker may still wait for a sum of this one.
    time.sleep(2)
    os._exit(0)


def main(directory, keras_version, run, step=None):
    strategy, _ = strategies.choose("auto")
    index = parse_tf_config(os.environ["TF_CONFIG"])[1]
    with strategy.scope():
        model = resumed_fit.model_of(keras_version)
    die = [resumed_fit.die_at(keras_version, "on_train_batch_end", int(step), leave)] if step else []
    found = resumed_fit.train(keras_version, "indexable", os.path.join(directory, run), die, model=model)
    np.savez(os.path.join(directory, f"{run}{index}.npz"), **found)
    # The first worker serves the cluster: it must not leave before the others are done.
    strategies.barrier(strategy)


if __name__ == "__main__":
    main(*sys.argv[1:])
