"""Measurements of a model's loss, gradients and Hessian on a probe: a few fixed training examples."""

from tfbigbatch.instruments.probe.micro_batches import micro_batches_of, probe_sizes

__all__ = ["micro_batches_of", "probe_sizes"]
