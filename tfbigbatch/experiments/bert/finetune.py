"""SQuAD v1.1, a task of GLUE, or RACE by BERT-Base (Devlin et al. 2019).

    tfbigbatch train --config=experiments/bert/finetune.py:squad --model_dir=runs/bert_squad \\
      --data_dir=FOLDER_OF_SQUAD --config.data.vocab_file=vocab.txt --config.model.init_checkpoint=CHECKPOINT

CHECKPOINT is a run of pretraining, Google's bert_model.ckpt, or Hugging Face's model.safetensors. GLUE's task is SST-2
unless --config.data.task=MRPC names another. Expected, in percent, not measured here:

| variant | result | source | hardware, time |
|---|---|---|---|
| squad | 80.8 exact match, 88.5 F1 | the paper, table 2 | one GPU, an hour |
| glue | SST-2 93.5, MRPC 88.9 (F1), CoLA 52.1 | the paper, table 1 | one GPU, minutes to an hour |
| race | about 65 (four answers of 512 tokens each) | published runs | one GPU, accumulation_steps, half a day |
"""

from tfbigbatch.config import Config, new_config, set_fields

VARIANTS = {
    "squad": {},
    "glue": {"schedule.learning_rate": 2e-5},
    "race": {"schedule.warmup_epochs": 0.1},
}


def get_config(variant: str = "squad") -> Config:
    config = new_config(f"bert_{variant}", model="bert_base")
    config.batch_size = 32
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
    return set_fields(config, VARIANTS[variant])
