"""LSTM on the digits at batch 256: eight workers of the small batch (32), combined by Adasum at its own rate.

    tfbigbatch train --config=experiments/digits/lstm_adasum.py --model_dir=runs/adasum

The workers are simulated: logical CPUs of this machine. On a TPU or GPUs, with --config.simulated_replicas=0, they
are the replicas. Two CPU cores, about half a minute. Measured: 98.3%, one run.
"""

from tfbigbatch import sweeps
from tfbigbatch.config import Config, variant_of


def get_config() -> Config:
    config = variant_of(__file__, "lstm_small_batch.py")
    adasum = {**config.optimizer.to_dict(), "adasum": True}
    config = sweeps.scaled(config, 256, "none", optimizer=adasum)
    config.simulated_replicas = 8
    return config
