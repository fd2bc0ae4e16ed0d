"""BERT-Large with LAMB at batch 61,440, then 30,720 at length 512: NVIDIA's recipe (DeepLearningExamples, TF2 BERT).

    tfbigbatch train --config=experiments/bert/nvidia.py --model_dir=runs/bert_nvidia \
      --data_dir=data/bert_prepared

Hardware: 8 GPUs for 4.5 days, or 512 V100 for 2.7 hours (theirs); accumulation_steps by their number. Their learning
rates of 7.5e-4 and 5e-4 are for each of 8 workers. Their length 512 has 80 masked words at most.
Expected: SQuAD v1.1 F1 90.9 after fine-tuning (theirs, five seeds). Not measured here.
"""

from tfbigbatch import experiment


def get_config() -> experiment.Config:
    config = experiment.variant_of(__file__, "lamb.py:512")
    config.schedule.rule = "none"
    config.schedule.decay = "polynomial"
    config.schedule.power = 0.5
    config.phases = (
        {
            "batch_size": 61440,
            "duration": "7506 steps",
            "data.folder": "128",
            "schedule.batch_size": 61440,
            "schedule.learning_rate": 7.5e-4 * 8,
            "schedule.warmup": "2133 steps",
        },
        {
            "batch_size": 30720,
            "duration": "1668 steps",
            "data.folder": "512",
            "schedule.batch_size": 30720,
            "schedule.learning_rate": 5e-4 * 8,
            "schedule.warmup": "213 steps",
        },
    )
    return config
