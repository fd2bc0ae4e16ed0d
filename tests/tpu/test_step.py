"""The traced training step of a phase."""

import pytest
import tensorflow as tf

from tfbigbatch.tpu import step


def test_each_stage_of_a_batch_ramp_is_a_step_of_its_own(quick_config):
    config = quick_config(ramp__name="doubling", ramp__to=192, ramp__over="1 epochs", duration="2 epochs")
    for phase, batch_size in ((1, 48), (3, 192)):
        traced = step.trace(config, 2, phase=phase)
        config_of = traced.phase.config
        assert (config_of.batch_size, config_of.accumulation_steps, traced.phases) == (batch_size, batch_size // 48, 3)
        assert tf.nest.flatten(traced.inputs)[0].shape[0] == batch_size // 2
    with pytest.raises(ValueError, match="--phase=4: the run has 3"):
        step.trace(config, 2, phase=4)
