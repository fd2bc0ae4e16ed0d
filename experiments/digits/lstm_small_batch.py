from tfbigbatch import experiment
def get_config():
    config = experiment.new("digits_lstm")
    config.duration = "40 epochs"
    config.optimizer = {"name": "momentum", "momentum": 0.9, "global_clipnorm": 1.0}
    return config
