"""BERT-Large with LAMB at batch 32,768, 15,625 updates: You et al. 2020 (arXiv:1904.00962), table 1.

    python -m tfbigbatch.train --config=experiments/bert/lamb_32k.py --model_dir=runs/bert_lamb_32k \\
      --data_dir=data/bert_prepared

Hardware: 1,024 TPU v3 chips, 101 minutes (theirs).
Expected: SQuAD v1.1 F1 91.46 after fine-tuning (the paper). Not measured here.
"""

from tfbigbatch import experiment


def get_config():
    config = experiment.variant_of(__file__, "lamb_512.py")
    config.batch_size = 32768
    return config
