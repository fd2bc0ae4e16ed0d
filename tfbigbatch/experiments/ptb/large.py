"""PTB-large of Zaremba et al. 2014 (arXiv:1409.2329): two LSTMs of 1,500, dropout 0.65, batch 20, 55 epochs.

    tfbigbatch prepare-ptb --source=FOLDER_WITH_THE_MIKOLOV_FILES --output_dir=data/ptb_prepared
    tfbigbatch train --config=experiments/ptb/large.py --model_dir=runs/ptb_large \\
      --data_dir=data/ptb_prepared

For a GPU, where Keras takes cuDNN's kernel. Expected: 78.4 test perplexity (the paper). Measured on one CPU core: 815
after 100 of the 73,000 updates, at 130 words a second, with --config.duration="100 steps",
--config.schedule.start="0 epochs" and --config.evaluate_every="100 steps".
"""

from tfbigbatch.config import Config, variant_of


def get_config() -> Config:
    config = variant_of(__file__, "small.py")

    config.model.window = 35
    config.model.hidden_units = config.model.embedding_units = 1500
    config.model.dropout = 0.65
    config.model.initial_scale = 0.04

    config.duration = "55 epochs"
    # Constant for 14 epochs, then divided by 1.15 at each.
    config.schedule.factor = 1 / 1.15
    config.schedule.start = "13 epochs"
    # The window's length again, as in small.py: the paper's rate is 1 and its norm 10.
    config.schedule.learning_rate = 1.0 * 35
    config.optimizer.global_clipnorm = 10.0 / 35
    return config
