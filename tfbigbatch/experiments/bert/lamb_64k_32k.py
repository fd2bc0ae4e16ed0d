"""BERT-Large with LAMB in 76 minutes: batch 65,536, then 32,768 at length 512, 8,599 updates (arXiv:1904.00962).

    python -m tfbigbatch.train --config=experiments/bert/lamb_64k_32k.py --model_dir=runs/bert_lamb_64k \\
      --data_dir=data/bert_prepared

Hardware: 1,024 TPU v3 chips, 76.19 minutes (theirs). The rates are the rule's of lamb_512.py at each batch.
Expected: SQuAD v1.1 F1 90.58 after fine-tuning (the paper). Not measured here.
"""

from tfbigbatch import experiment


def get_config():
    config = experiment.variant_of(__file__, "lamb_512.py")
    first, second = config.phases
    config.phases = (
        {**first, "batch_size": 65536, "duration": "7037 steps"},
        {**second, "batch_size": 32768, "duration": "1562 steps"},
    )
    config.evaluate_every = config.checkpoint_every = "500 steps"
    config.log_every = "20 steps"
    return config
