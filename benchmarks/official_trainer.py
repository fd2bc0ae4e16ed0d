"""Times tf-models-official's own trainer by its own configurations."""

import os
import time


def speeds(theirs, task, config, steps, windows):
    """Examples a second of each window.

    Args:
      theirs: its ExperimentConfig.
      task: its task, made of theirs.task.
      config: of our experiment, for the batch size and jit_compile.
      steps: updates in a window.
      windows: number of them; the first holds the tracing.
    """
    import orbit
    import tensorflow as tf
    from official.core import base_trainer

    if config.jit_compile:
        # What its flag for XLA does; on a CPU that compiles nothing without TensorFlow's own flag.
        os.environ["TF_XLA_FLAGS"] = "--tf_xla_cpu_global_jit " + os.environ.get("TF_XLA_FLAGS", "")
        tf.config.optimizer.set_jit(True)
    optimizer = task.create_optimizer(theirs.trainer.optimizer_config, theirs.runtime)
    trainer = base_trainer.Trainer(theirs, task, task.build_model(), optimizer, evaluate=False)
    controller = orbit.Controller(trainer=trainer, global_step=trainer.global_step, steps_per_loop=steps)
    found = []
    for window in range(windows):
        started = time.perf_counter()
        controller.train((window + 1) * steps)
        found.append(steps * config.batch_size / (time.perf_counter() - started))
    return found
