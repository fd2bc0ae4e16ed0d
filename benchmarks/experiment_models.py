"""The compiled model of an experiment and its training batches, for benchmarks that take steps by themselves."""


def model_and_batches(config, batch_size, *, steps, data_dir=None, use_fake_data=False):
    """The model of an experiment at a batch size, and its training batches of one shape.

    Args:
      config: the experiment's; its batch size, accumulation and steps in an execution are set here.
      batch_size: examples in a step.
      steps: how many batches are needed.
      data_dir: where the task's data lies.
      use_fake_data: made-up data of the right shape.

    Returns:
      (model, batches): a compiled `tf_keras.Model` with the network in `network`, and an iterable of (inputs, labels)
      or (inputs, labels, weights).
    """
    import tensorflow as tf

    from tfbigbatch import tasks
    from tfbigbatch.training import phases as run_phases
    from tfbigbatch.training.build import compiled_model

    config.batch_size = config.schedule.batch_size = batch_size
    config.accumulation_steps = config.steps_per_execution = 1

    def task_of(fields):
        model, data = fields.model.to_dict(), fields.data.to_dict()
        return tasks.get(fields.task)(model=model, data=data, data_dir=data_dir, use_fake_data=use_fake_data)

    phases = run_phases.phases_of(config, task_of, 1)
    batches = phases[0].task.train.training_batches(
        tf.distribute.InputContext(), batch_size=batch_size, seed=config.seed, first_step=0, last_step=steps
    )
    return compiled_model(config, phases), batches


def gradient_function(model):
    """A tf.function of a batch: the gradients of the model's loss, in the order of its trainable variables."""
    import tensorflow as tf

    variables = model.network.trainable_variables

    @tf.function
    def gradients_of(batch):
        x, y, weight = (*batch, None)[:3]
        with tf.GradientTape() as tape:
            loss = model.compute_loss(x, y, model(x, training=True), weight)
        return [tf.convert_to_tensor(each) for each in tape.gradient(loss, variables)]

    return gradients_of
