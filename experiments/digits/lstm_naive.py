"""The naive large batch: 16 times the small batch, everything else as it was."""

from tfbigbatch import experiment


def get_config():
    config = experiment.variant_of(__file__, "lstm_small_batch.py")
    config.batch_size = 512
    return config
