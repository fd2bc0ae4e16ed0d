"""The Keras model of a run, from its config: network, training step, optimizer, loss and metrics, compiled."""

from tfbigbatch import optimizers, scaling
from tfbigbatch.errors import InputError
from tfbigbatch.training import phases as run_phases
from tfbigbatch.training.carried_state import StatefulTrainingModel
from tfbigbatch.training.instruments import optimizer_fields
from tfbigbatch.training.train_step import TrainingModel


def compiled_model(config, phases, *, jit_compile=False):
    """A `TrainingModel` of the first phase's task, compiled, with its optimizer built.

    Call it inside the strategy's scope.

    Args:
      config: of the experiment.
      phases: the `phases.Phase`s of the run.
      jit_compile: whether Keras compiles the steps.

    Raises:
      ValueError: the optimizer's fields cannot be used.
    """
    task, plan = phases[0].task, phases[0].plan
    network = task.network()
    step = (config.accumulation_steps, task.metrics_in_training)
    if task.carries_state:
        sizes = {"batch_size": config.batch_size, "evaluation_batch_size": plan.evaluation_batch_size}
        model = StatefulTrainingModel(network, *step, **sizes)
    else:
        model = TrainingModel(network, *step, batch_slices=task.batch_slices, predictions=task.predictions)
    model.compile(
        optimizer=_optimizer(
            optimizer_fields(config),
            scaling.make_adjustable(plan.learning_rate) if config.date.enabled else run_phases.learning_rate(phases),
        ),
        loss=task.loss(),
        weighted_metrics=task.metrics(),
        steps_per_execution=config.steps_per_execution,
        jit_compile=jit_compile,
    )
    # A variable that the first step makes is a second tracing of it. Keras has a mean for the loss of each output.
    model.optimizer.build(network.trainable_variables)
    outputs = getattr(network, "output", None)
    if isinstance(outputs, dict):
        model.compiled_loss.build(outputs)
    return model


def _optimizer(arguments, learning_rate):
    name = arguments.pop("name", None)
    for field, why in (
        ("learning_rate", "the rate comes from the fields of schedule"),
        (
            "use_ema",
            "the trainer calls fit once an interval, and Keras puts the averages into the model at each call's end",
        ),
    ):
        if arguments.get(field):
            raise InputError(f"optimizer.{field} cannot be set here: {why}. Remove it.")
    return optimizers.get(name, keras="tf_keras", learning_rate=learning_rate, **arguments)
