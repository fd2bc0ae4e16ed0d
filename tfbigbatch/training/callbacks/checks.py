"""Stops a run whose task says that something is wrong, such as data of which too much is bad."""

from tfbigbatch.training.callbacks.base import StepCallback


class Checks(StepCallback):
    """Calls each of `checks` after every loop of updates; one that finds something wrong raises."""

    def __init__(self, checks):
        super().__init__()
        self._checks = checks

    def on_steps(self, before, step, logs):
        for check in self._checks:
            check()
