"""A task of GLUE by BERT-Base, SST-2 unless another is named (Devlin et al. 2019, section 4.1).

    tfbigbatch train --config=experiments/bert/glue.py --model_dir=runs/bert_glue \\
      --data_dir=FOLDER_OF_GLUE --config.data.vocab_file=vocab.txt --config.model.init_checkpoint=CHECKPOINT \\
      --config.data.task=MRPC

CHECKPOINT is a run of pretraining, Google's bert_model.ckpt, or Hugging Face's model.safetensors.
Hardware: one GPU, minutes to an hour. Expected, in percent (the paper, table 1): SST-2 93.5, MRPC 88.9 (F1), CoLA
52.1. Not measured here.
"""

from tfbigbatch import experiment


def get_config() -> experiment.Config:
    config = experiment.new("bert_glue", model="bert_base")
    config.batch_size = config.schedule.batch_size = 32
    config.duration = "3 epochs"
    config.schedule.learning_rate = 2e-5
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
