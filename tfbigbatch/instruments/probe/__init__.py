"""Measurements of a model's loss, gradients and Hessian on a probe: a few fixed training examples."""
