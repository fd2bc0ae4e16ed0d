"""Callback that measures sharpness: the Hessian's largest eigenvalues, its trace, and SAM's rise of the loss."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfbigbatch.instruments.instrument import Instrument
from tfbigbatch.instruments.lanczos import hutchinson_trace, largest_eigenvalues
from tfbigbatch.instruments.probe.hessian import ProbeHessian
from tfbigbatch.instruments.probe.micro_batches import micro_batches_of
from tfbigbatch.utils import arguments


class Sharpness(Instrument):
    """Measures the curvature of the loss on a fixed probe at the current weights.

    - The largest eigenvalues of the Hessian: Lanczos' method on Hessian-vector products, with full
      reorthogonalisation.
    - Its trace: Hutchinson's estimate, with its standard error.
    - The rise of the loss at a radius, as in SAM (Foret et al. 2021, arXiv:2010.01412):
      L(w + radius g / |g|) - L(w), with g the gradient.

    A measurement takes at most `iterations` + `trace_samples` Hessian-vector products and one gradient of the probe, in
    every replica; a product costs two to three gradients.

    Args:
      probe: fixed examples: a tuple (x, y) or (x, y, weight) of arrays, or an iterable of equal
        micro-batches (see `instruments.probe`).
      micro_batches: number of parts that a tuple is cut into; a product needs the memory of one.
      when: steps between measurements, or a list of steps.
      eigenvalues: their number; 0 for none.
      iterations: maximum of Lanczos' method. Each keeps a vector in host memory, 4 bytes per weight.
      tolerance: relative error of the eigenvalues at which the iterations stop.
      trace_samples: 2 or more; 0 for no trace.
      radius: of the rise, a norm in weight space; 0 for no rise.
      seed: of Lanczos' first vector and the trace's signs, the same at every measurement.
      log: None, a folder for TensorBoard, or an object with the methods of `EventLog`.

    Attributes:
      history: list of dictionaries: step, loss, gradient_norm, eigenvalue_1, eigenvalue_2... (the
        largest first), eigenvalue_error (the largest error bound), trace, trace_error, rise.

    Raises:
      ValueError: an argument is out of range.
      LookupError: at a measurement, an operation of the model has no second derivative.
    """

    group = "sharpness"

    def __init__(
        self,
        *,
        probe: Any,
        micro_batches: int = 8,
        when: int | Sequence[int] = 1000,
        eigenvalues: int = 1,
        iterations: int = 30,
        tolerance: float = 1e-3,
        trace_samples: int = 10,
        radius: float = 0.05,
        seed: int = 0,
        log: Any = None,
    ) -> None:
        super().__init__(when=when, log=log)
        whole = functools.partial(arguments.integer, owner="Sharpness")
        eigenvalues = whole("eigenvalues", eigenvalues, least=0, most=whole("iterations", iterations, least=0))
        if trace_samples:
            whole("trace_samples", trace_samples, least=2)
        arguments.number("radius", radius, least=0, owner="Sharpness")
        self._probe = micro_batches_of(probe, micro_batches)
        self._eigenvalues = eigenvalues
        self._iterations = iterations
        self._tolerance = tolerance
        self._trace_samples = trace_samples
        self._radius = radius
        self._seed = seed
        self._hessian: ProbeHessian | None = None

    def _measure(self, step: int) -> None:
        if self._hessian is None:
            self._hessian = ProbeHessian(self.model, self._probe)
        loss, gradient = self._hessian.gradient()
        norm = float(np.linalg.norm(gradient))
        seen = {"loss": loss, "gradient_norm": norm}
        if np.isfinite(loss) and np.isfinite(norm):
            seen.update(self._curvature(self._hessian))
            if self._radius:
                change = gradient * (self._radius / norm) if norm else gradient
                seen["rise"] = self._hessian.loss_at(change) - loss
        self._record(step, seen)

    def _curvature(self, hessian: ProbeHessian) -> dict[str, float]:
        product, size = hessian.product, hessian.size
        seen: dict[str, float] = {}
        if self._eigenvalues:
            count = min(self._eigenvalues, size)
            found = largest_eigenvalues(
                product, size, count, iterations=self._iterations, tolerance=self._tolerance, seed=self._seed
            )
            seen.update({f"eigenvalue_{number}": float(value) for number, value in enumerate(found.values, 1)})
            seen["eigenvalue_error"] = float(max(found.errors))
        if self._trace_samples:
            seen["trace"], seen["trace_error"] = hutchinson_trace(
                product, size, samples=self._trace_samples, seed=self._seed
            )
        return seen
