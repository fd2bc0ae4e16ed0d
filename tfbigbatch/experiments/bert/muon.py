"""BERT-Large with Muon at batch 65,536 and 32,768: the lengths of LAMB's run in 76 minutes (lamb.py:64k_32k).

    tfbigbatch train --config=experiments/bert/muon.py --model_dir=runs/bert_muon \\
      --data_dir=data/bert_prepared

Data as for lamb.py. 7,037 steps of 65,536 sequences of 128, then 1,562 of 32,768 of 512; 1,024 TPU v3 chips.
Embeddings and vectors take Adam's step. Expected: no figure is published for this recipe, and it was not run: a place
to start from, with a learning rate of our own that was not tuned.
"""

from tfbigbatch.config import Config, variant_of


def get_config() -> Config:
    config = variant_of(__file__, "lamb.py:64k_32k")
    config.model.output_bias = "frequency"
    config.optimizer = {
        "name": "muon",
        "weight_decay": 0.01,
        "exclude_from_weight_decay": "norm_and_bias",
        "global_clipnorm": 1.0,
    }
    config.schedule.rule = "none"
    config.schedule.learning_rate = 0.002
    config.schedule.warmup = "1407 steps"
    first, second = config.phases
    config.phases = (first, {**second, "schedule.warmup": "312 steps"})
    return config
