"""The instruments of a run, as its config's fields ask for them."""

import os

import tensorflow as tf

from tfbigbatch import instruments
from tfbigbatch.errors import InputError
from tfbigbatch.schedules import to_steps
from tfbigbatch.utils.files import writing_errors

SOURCES = ("steps", "probe")
NAMES = ("noise_scale", "sharpness", "layers", "interpolation")


class RunInstruments:
    """Makes the instruments that a config enables; each is a callback of tf_keras.

    Make it after the model, before its first step and before anything is restored: from then on the
    model shows its steps' gradients where an instrument is to see them.

    Args:
      config: of the experiment.
      model: TrainingModel.
      task: of the first phase; its training examples are the probe.
      write: function of (step, dictionary of name to float), for the scalars.
      model_dir: the run directory; histograms and pictures go to instruments/ in it.

    Attributes:
      callbacks: list, for `fit`.
    """

    def __init__(self, config, model, task, write, model_dir):
        self._config, self._task, self._model = config, task, model
        self._log = _RunLog(write, os.path.join(model_dir, "instruments"))
        fields, faces = config.instruments, instruments.keras2
        self._step_gradients = self._noise = self._plot = None
        noise = fields.noise_scale.enabled and fields.noise_scale.source == "steps"
        if fields.layers.enabled or noise:
            with model.distribute_strategy.scope():
                self._step_gradients = instruments.StepGradients(len(model.network.trainable_variables), noise=noise)
            model.step_gradients = self._step_gradients
        self.callbacks = []
        if fields.noise_scale.enabled:
            steps = fields.noise_scale.source == "steps"
            self._noise = faces.GradientNoiseScale(
                **({"step_gradients": self._step_gradients} if steps else {"probe": self._fresh_probe}),
                smoothing=fields.noise_scale.smoothing,
                **self._common("noise_scale"),
            )
            self.callbacks.append(self._noise)
        if fields.sharpness.enabled:
            options = {
                name: fields.sharpness[name] for name in ("eigenvalues", "iterations", "trace_samples", "radius")
            }
            self.callbacks.append(
                faces.Sharpness(probe=self._probe(), seed=config.seed, **options, **self._common("sharpness"))
            )
        if fields.layers.enabled:
            self.callbacks.append(
                faces.LayerStatistics(
                    step_gradients=self._step_gradients, histograms=fields.layers.histograms, **self._common("layers")
                )
            )
        if fields.interpolation.enabled:
            self._plot = faces.InterpolationPlot(
                probe=self._probe(),
                folder=self._log.folder,
                # Nothing is restored yet: a run that is resumed begins its line where it began itself.
                start=model.get_weights(),
                surface_points=fields.interpolation.surface_points,
                seed=config.seed,
                log=self._log,
            )

    def finish(self):
        """To be called at the end of the run: draws what is drawn of the whole of it."""
        if self._plot is not None:
            self._plot.set_model(self._model)
            with writing_errors(self._log.folder):
                self._plot.draw()

    def checkpointing(self):
        """Dictionary of what a checkpoint is to hold, so that a resumed run goes on with the same averages."""
        held = {}
        if self._noise is not None:
            held["noise_average"] = self._noise.average
        if self._step_gradients is not None:
            held["step_gradients"] = self._step_gradients.variables
        return held

    def _common(self, name):
        every = to_steps(
            self._config.instruments[name].every,
            name=f"instruments.{name}.every",
            batch_size=self._config.batch_size,
            dataset_size=self._task.train.examples_in_epoch(self._config.batch_size),
        )
        return {"when": every, "log": self._log}

    def _probe(self, number=0, seed=None):
        """Examples of the training set, as micro-batches: the `number`th probe of an order of a seed's."""
        probe = self._config.instruments.probe
        return self._task.train.training_batches(
            # Every worker measures the same probe.
            tf.distribute.InputContext(),
            batch_size=probe.micro_batch_size,
            seed=self._config.seed if seed is None else seed,
            first_step=number * probe.micro_batches,
            last_step=(number + 1) * probe.micro_batches,
        )

    def _fresh_probe(self, step):
        # Of another order than the run's own: what it was just trained on says too little of the noise.
        return list(self._probe(step, seed=self._config.seed + 1))


def optimizer_fields(config):
    """A config's `optimizer` as a dictionary, with the statistics that an instrument reads."""
    fields, layers = config.optimizer.to_dict(), config.instruments.layers
    if layers.enabled and layers.trust_ratio and str(fields.get("name")).lower() in ("lamb", "lars"):
        fields = {"layer_statistics": True, **fields}
    return fields


def check_instruments(config, carries_state, replicas):
    """Checks the fields of `config.instruments`.

    Raises:
      ValueError: a field has a value that cannot be used with the task or the run.
    """
    fields = config.instruments
    probing = [name for name in NAMES if fields[name].enabled and name != "layers"]
    if fields.noise_scale.source not in SOURCES:
        raise InputError(
            f"instruments.noise_scale.source={fields.noise_scale.source!r}: expected one of {', '.join(SOURCES)}."
        )
    if fields.noise_scale.enabled and fields.noise_scale.source == "steps":
        probing.remove("noise_scale")
        if config.accumulation_steps * replicas < 2:
            raise InputError(
                "instruments.noise_scale.source='steps': the noise is seen between the micro-batches of an update, and "
                "this run has one. Set accumulation_steps=2 or more, train on several replicas, or take 'probe'."
            )
    if probing and carries_state:
        raise InputError(
            f"instruments.{probing[0]}.enabled: its probe begins anywhere, and the streams of task {config.task} carry "
            "state from one update to the next. Set it to False; instruments.layers, and noise_scale with the source "
            "'steps', need no probe."
        )
    if config.optimizer.get("adasum") and (fields.layers.enabled or fields.noise_scale.enabled):
        raise InputError(
            "instruments.layers and instruments.noise_scale see the mean of the replicas' gradients, and "
            "optimizer.adasum combines them otherwise. Disable one of the two."
        )


class _RunLog:
    """An instrument's log within a run: scalars beside the run's own, the rest in a folder of TensorBoard events."""

    def __init__(self, write, folder):
        self.folder = folder
        self._write = write
        self._events = instruments.EventLog(folder)

    def scalars(self, step, values):
        self._write(step, values)
        with writing_errors(self.folder):
            self._events.lay_out()

    def histograms(self, step, values):
        with writing_errors(self.folder):
            self._events.histograms(step, values)

    def image(self, step, tag, png):
        with writing_errors(self.folder):
            self._events.image(step, tag, png)
