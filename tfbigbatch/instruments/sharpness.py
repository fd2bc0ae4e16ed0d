"""How curved the loss is where a run stands: the Hessian's largest eigenvalues, its trace, and a rise nearby."""

import numpy as np

from tfbigbatch.errors import InputError
from tfbigbatch.instruments.hutchinson import hutchinson_trace
from tfbigbatch.instruments.instrument import Instrument
from tfbigbatch.instruments.lanczos import largest_eigenvalues
from tfbigbatch.instruments.probe.hessian import ProbeHessian
from tfbigbatch.instruments.probe.micro_batches import micro_batches_of
from tfbigbatch.instruments.probe.model import probe_mode


class SharpnessMixin(Instrument):
    """Measures the curvature of the loss on a fixed probe, at the weights as they are.

    - The largest eigenvalues of the Hessian: Lanczos' method on Hessian-vector products, with full
      reorthogonalisation.
    - Its trace: Hutchinson's estimate, with its standard error.
    - The rise of the loss at a radius, as SAM sees it (Foret et al. 2021, arXiv:2010.01412):
      L(w + radius g / |g|) - L(w), with g the gradient.

    A look is `iterations` products at most, `trace_samples` products and one gradient of the probe, in
    every replica; a product costs two to three gradients.

    Args:
      probe: fixed examples: a tuple (x, y) or (x, y, weight) of arrays, or an iterable of equal
        micro-batches (see `instruments.probe`).
      micro_batches: what a tuple is cut in; a product needs the memory of one.
      when: updates between looks; or a list of the updates to look after.
      eigenvalues: how many; 0 for none.
      iterations: of Lanczos' method at most. It keeps their vectors in the host's memory, 4 bytes a weight each.
      tolerance: of the eigenvalues, relative: the iterations stop there.
      trace_samples: 2 or more; 0 for no trace.
      radius: of the rise, a length in the space of the weights; 0 for none.
      training: bool, whether the probe runs in training mode (dropout, batch statistics); None is
        False, unless the model has batch normalisation.
      seed: of Lanczos' first vector and of the trace's signs, the same at every look.
      log: None; a folder for TensorBoard; or an object as `EventLog`.

    Attributes:
      history: list of dictionaries: step, loss, gradient_norm, eigenvalue_1 and on (the largest
        first), eigenvalue_error (the largest bound on their errors), trace, trace_error, rise.

    Raises:
      ValueError: an argument is out of range.
      LookupError: at a look, an operation of the model has no second derivative.
    """

    group = "sharpness"

    def __init__(
        self,
        *,
        probe,
        micro_batches=8,
        when=1000,
        eigenvalues=1,
        iterations=30,
        tolerance=1e-3,
        trace_samples=10,
        radius=0.05,
        training=None,
        seed=0,
        log=None,
    ):
        super().__init__(when=when, log=log)
        for name, value, fits, expected in (
            ("eigenvalues", eigenvalues, 0 <= eigenvalues <= iterations, "0 to iterations"),
            ("trace_samples", trace_samples, trace_samples == 0 or trace_samples >= 2, "0, or 2 or more"),
            ("radius", radius, radius >= 0.0, "0 or more"),
        ):
            if not fits:
                raise InputError(f"Sharpness: {name}={value} is out of range; expected {expected}.")
        self._probe = micro_batches_of(probe, micro_batches)
        self._eigenvalues = eigenvalues
        self._iterations = iterations
        self._tolerance = tolerance
        self._trace_samples = trace_samples
        self._radius = radius
        self._training = training
        self._seed = seed
        self._hessian = None

    def _look(self, step):
        if self._hessian is None:
            self._hessian = ProbeHessian(self.model, self._probe, probe_mode(self.model, self._training))
        loss, gradient = self._hessian.gradient()
        norm = float(np.linalg.norm(gradient))
        seen = {"loss": loss, "gradient_norm": norm}
        if np.isfinite(loss) and np.isfinite(norm):
            seen.update(self._curvature())
            if self._radius:
                change = gradient * (self._radius / norm) if norm else gradient
                seen["rise"] = self._hessian.loss_at(change) - loss
        self._tell(step, seen)

    def _curvature(self):
        product, size, seen = self._hessian.product, self._hessian.size, {}
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
