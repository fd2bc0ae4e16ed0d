"""SQuAD v1.1 by BERT-Base (Devlin et al. 2019, section 4.2).

    tfbigbatch train --config=experiments/bert/squad.py --model_dir=runs/bert_squad \\
      --data_dir=FOLDER_OF_SQUAD --config.data.vocab_file=vocab.txt --config.model.init_checkpoint=CHECKPOINT

CHECKPOINT is a run of pretraining, Google's bert_model.ckpt, or Hugging Face's model.safetensors.
Hardware: one GPU, an hour. Expected: 80.8 exact match, 88.5 F1 (the paper, table 2). Not measured here.
"""

from tfbigbatch import experiment


def get_config() -> experiment.Config:
    config = experiment.new("bert_squad", model="bert_base")
    config.batch_size = config.schedule.batch_size = 32
    config.duration = "3 epochs"
    config.schedule.learning_rate = 5e-5
    config.schedule.warmup_epochs = 0.3
    config.optimizer = {
        "name": "adamw",
        "epsilon": 1e-6,
        "weight_decay": 0.01,
        "exclude_from_weight_decay": "norm_and_bias",
        "global_clipnorm": 1.0,
    }
    config.schedule.decay = "linear"

    config.evaluation_batch_size = 64
    config.evaluate_every = config.checkpoint_every = "1 epochs"
    config.log_every = "50 steps"
    config.deterministic = False
    return config
