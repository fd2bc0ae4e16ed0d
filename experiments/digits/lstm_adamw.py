from tfbigbatch import experiment


def get_config():
    config = experiment.variant_of(__file__, "lstm_small_batch.py")
    config.batch_size = 512
    config.optimizer = {"name": "adamw", "weight_decay": 0.01, "global_clipnorm": 1.0}
    config.schedule.batch_size = 512
    config.schedule.learning_rate = 0.02
    config.schedule.warmup_epochs = 5.0
    return config
