"""A small GNMT on Multi30k, English to German, at batch 64: the baseline of experiments/multi30k.

    tfbigbatch train --config=experiments/multi30k/gnmt_small_batch.py --model_dir=runs/multi30k \\
      --data_dir=data/multi30k_en_de

The data, of 4,000 pieces: docs/gnmt.md. Measured, three seeds: 37.2 BLEU on test2016, 32.6 after 3 epochs, 35.7 after
6; at a median of 366 examples a second 16 minutes of one core of an AMD EPYC with AVX-512, without the evaluations.
"""

from tfbigbatch.config import Config, new_config


def get_config() -> Config:
    config = new_config("gnmt")

    config.model.hidden_units = config.model.embedding_units = 192
    config.model.encoder_layers, config.model.decoder_layers = 1, 2
    config.model.dropout = 0.2
    # Sums over so few units are small with MLPerf's 0.1: of 128, the loss after an epoch was 92, and 82 with 0.25.
    config.model.initial_scale = 0.2
    # As in the runs of results/. "frequency" is the default of the task.
    config.model.output_bias = "uniform"

    config.batch_size = 64
    config.duration = "12 epochs"
    config.schedule.batch_size = 64
    config.schedule.learning_rate = 0.006
    config.schedule.warmup_epochs = 0.0625  # 2 epochs at batch 2,048
    config.schedule.decay = "linear"
    config.optimizer = {"name": "adamw", "weight_decay": 0.0, "beta_2": 0.98, "global_clipnorm": 5.0}

    config.evaluation_batch_size = 128
    config.evaluate_on = "test"
    config.evaluate_every = "3 epochs"
    config.checkpoint_every = "1 epochs"
    config.log_every = "20 steps"
    return config
