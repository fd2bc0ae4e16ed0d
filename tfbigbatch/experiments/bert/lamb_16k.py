"""BERT-Large with LAMB at batch 16,384, 31,250 updates: You et al. 2020 (arXiv:1904.00962), table 1.

    python -m tfbigbatch.train --config=experiments/bert/lamb_16k.py --model_dir=runs/bert_lamb_16k \\
      --data_dir=data/bert_prepared

Hardware: TPU v3 chips, 16 to 512 of them; or fewer devices, with accumulation_steps.
Expected: SQuAD v1.1 F1 90.68 after fine-tuning (the paper). Not measured here.
"""

from tfbigbatch import experiment


def get_config():
    config = experiment.variant_of(__file__, "lamb_512.py")
    config.batch_size = 16384
    return config
