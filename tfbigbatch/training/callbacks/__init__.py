"""Keras callbacks of a run. They work in any `fit`, and count optimizer steps."""

from tfbigbatch.training.callbacks.best import KeepBest
from tfbigbatch.training.callbacks.evaluation import Evaluation
from tfbigbatch.training.callbacks.own import OwnCallbacks
from tfbigbatch.training.callbacks.profile import Profile
from tfbigbatch.training.callbacks.progress import Progress
from tfbigbatch.training.callbacks.saving import SaveCheckpoints
from tfbigbatch.training.callbacks.signals import StopOnSignal
from tfbigbatch.training.callbacks.step_metrics import StepMetrics
from tfbigbatch.training.callbacks.watch import Checks, FirstStep, Heartbeat, StopOnNonFinite, WriteStatus

__all__ = [
    "Checks",
    "Evaluation",
    "FirstStep",
    "Heartbeat",
    "KeepBest",
    "OwnCallbacks",
    "Profile",
    "Progress",
    "SaveCheckpoints",
    "StepMetrics",
    "StopOnNonFinite",
    "StopOnSignal",
    "WriteStatus",
]
