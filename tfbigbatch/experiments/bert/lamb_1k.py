"""BERT-Large with LAMB at batch 1,024, 500,000 updates: You et al. 2020 (arXiv:1904.00962), table 1.

    python -m tfbigbatch.train --config=experiments/bert/lamb_1k.py --model_dir=runs/bert_lamb_1k \\
      --data_dir=data/bert_prepared

Hardware: TPU v3 chips, 16 to 512 of them; or fewer devices, with accumulation_steps.
Expected: SQuAD v1.1 F1 90.38 after fine-tuning (the paper). Not measured here.
"""

from tfbigbatch import experiment


def get_config():
    config = experiment.variant_of(__file__, "lamb_512.py")
    config.batch_size = 1024
    return config
