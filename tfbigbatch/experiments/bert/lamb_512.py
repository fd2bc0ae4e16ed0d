"""BERT-Large with LAMB at batch 512: the small batch of You et al. 2020 (arXiv:1904.00962), table 1.

    python tools/prepare_bert.py --source=WIKIPEDIA_AND_BOOKS --vocab_file=vocab.txt --max_seq_length=128 \\
      --max_predictions_per_seq=20 --output_dir=data/bert_prepared/128
    python tools/prepare_bert.py --source=WIKIPEDIA_AND_BOOKS --vocab_file=vocab.txt --max_seq_length=512 \\
      --max_predictions_per_seq=76 --output_dir=data/bert_prepared/512
    python -m tfbigbatch.train --config=experiments/bert/lamb_512.py --model_dir=runs/bert_lamb_512 \\
      --data_dir=data/bert_prepared

Hardware: 16 TPU v3 chips, 81.4 hours (theirs). 1,000,000 updates, nine tenths of them at length 128. The paper says
nothing of the rate at the change of length; here it warms up anew, as in its run of two batches.
Expected: SQuAD v1.1 F1 90.72 after fine-tuning (the paper). Not measured here.
"""

from tfbigbatch import experiment


def get_config():
    config = experiment.new("bert_pretraining", model="bert_large")

    config.batch_size = 512
    config.optimizer = {
        "name": "lamb",
        "beta_1": 0.9,
        "beta_2": 0.999,
        "epsilon": 1e-6,
        "weight_decay": 0.01,
        "exclude_from_weight_decay": "norm_and_bias",
        "global_clipnorm": 1.0,
    }
    # The paper's rule, 5 / (2^(k / 2) 10^3) with k = 6 here and one less at each doubling, and a warm-up whose share
    # of the run doubles (1/320 here), is LEGW.
    config.schedule.batch_size = 512
    config.schedule.learning_rate = 5 / 8 * 1e-3
    config.schedule.rule = "legw"
    config.schedule.warmup = "3125 steps"
    config.schedule.decay = "linear"
    config.phases = (
        {"duration": "460800000 examples", "data.folder": "128"},
        {"duration": "51200000 examples", "data.folder": "512", "schedule.warmup": "312 steps"},
    )

    config.mixed_precision = "bfloat16"
    config.evaluation_batch_size = 1024
    config.evaluate_every = config.checkpoint_every = "5000000 examples"
    config.log_every = "100 steps"
    config.steps_per_execution = 20
    # Bitwise repeatable kernels are slow, and missing for some, on accelerators.
    config.deterministic = False
    return config
