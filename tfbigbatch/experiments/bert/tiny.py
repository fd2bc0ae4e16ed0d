"""BERT-tiny, two layers of 128, on WikiText-2 at batch 64: the first thing to try.

    tfbigbatch prepare-bert --source=FOLDER_OF_WIKITEXT_2 --vocab_file=vocab.txt --max_seq_length=128 \\
      --max_predictions_per_seq=20 --output_dir=data/wikitext_prepared
    tfbigbatch train --config=experiments/bert/tiny.py --model_dir=runs/bert_tiny \\
      --data_dir=data/wikitext_prepared

One CPU core. Expected: not known. Its rate is a guess; wikitext.py is the one that is tuned and measured.
"""

from tfbigbatch.config import Config, new_config


def get_config() -> Config:
    config = new_config("bert_pretraining", model="bert_tiny")
    config.batch_size = 64
    config.duration = "10 epochs"
    config.optimizer = {
        "name": "lamb",
        "epsilon": 1e-6,
        "weight_decay": 0.01,
        "exclude_from_weight_decay": "norm_and_bias",
        "global_clipnorm": 1.0,
    }
    config.schedule.batch_size = 64
    config.schedule.learning_rate = 2e-3
    config.schedule.rule = "legw"
    config.schedule.warmup_epochs = 0.1
    config.schedule.decay = "linear"

    config.evaluation_batch_size = 256
    config.evaluate_every = config.checkpoint_every = "1 epochs"
    config.log_every = "50 steps"
    return config
