from tfbigbatch import experiment


def get_config():
    config = experiment.variant_of(__file__, "lstm_small_batch.py")
    config.batch_size = 512
    config.optimizer = {"name": "momentum", "momentum": 0.9, "nesterov": True, "global_clipnorm": 1.0}
    config.schedule.batch_size = 512
    config.schedule.learning_rate = 1.6
    config.schedule.warmup_epochs = 5.0
    return config
