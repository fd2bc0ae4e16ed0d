"""One process of several that train a model of Keras 3 by PyTorch's DistributedDataParallel, in a loop of its own.

`KERAS_BACKEND=torch python -m tests.helpers.torch_data_parallel RANK PROCESSES FOLDER` takes four steps, each process
on its part of the batches, and leaves FOLDER/PROCESSES_RANK.npz.
"""

import os
import sys

import keras
import numpy as np
import torch

from tests.helpers import backend_program
from tfbigbatch.optimizers import keras3

OPTIMIZERS = {
    "lamb": lambda: keras3.LAMB(0.02, weight_decay=0.1, global_clipnorm=0.5),
    "muon": lambda: keras3.Muon(0.02, weight_decay=0.1),
}


def trained(optimizer, rank, processes):
    model = backend_program.small_model()
    optimizer.build(model.trainable_variables)
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    x, y = (torch.as_tensor(each) for each in backend_program.data())
    share = backend_program.BATCH // processes
    for start in range(rank * share, len(x), backend_program.BATCH):
        parallel.zero_grad()
        loss(y[start : start + share], parallel(x[start : start + share])).backward()
        with torch.no_grad():
            optimizer.apply([variable.value.grad for variable in model.trainable_variables])
    return model


def main(rank, processes, folder):
    rank, processes = int(rank), int(processes)
    # A file, and not a port that another process may have taken.
    meeting = f"file://{os.path.join(folder, f'meeting_{processes}')}"
    torch.distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=processes)
    found = {}
    for name, make in OPTIMIZERS.items():
        found.update(backend_program.weights(name, trained(make(), rank, processes)))
    np.savez(os.path.join(folder, f"{processes}_{rank}.npz"), **found)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
