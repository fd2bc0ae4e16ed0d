from tfbigbatch import experiment


def get_config():
    config = experiment.variant_of(__file__, "lstm_small_batch.py")
    config.batch_size = 512
    config.schedule.rule = "legw"
    return config
