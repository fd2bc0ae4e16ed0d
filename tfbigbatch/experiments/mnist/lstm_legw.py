"""MNIST-LSTM at 64 times the batch (8,192), the small batch's recipe carried by LEGW.

    tfbigbatch train --config=experiments/mnist/lstm_legw.py --model_dir=runs/mnist_legw \\
      --data_dir=FOLDER_WITH_THE_FOUR_IDX_FILES

Two CPU cores, about 5 minutes. Measured: see docs/results/mnist_lstm.md.
"""

from tfbigbatch.config import Config, variant_of


def get_config() -> Config:
    config = variant_of(__file__, "lstm_small_batch.py")
    config.batch_size = 8192
    config.schedule.rule = "legw"
    config.log_every = "1 epochs"
    return config
