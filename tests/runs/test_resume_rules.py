import pytest

from tfbigbatch import experiment
from tfbigbatch.runs import resume_rules
from tfbigbatch.runs.run_directory import RunDirectory


def test_a_batch_may_be_divided_otherwise_but_not_be_another(tmp_path):
    config = experiment.new("digits_lstm")
    config.phases = ({"duration": "2 steps", "accumulation_steps": 2}, {"duration": "3 steps"})
    directory = RunDirectory(str(tmp_path))
    directory.open(config.to_dict(), [])
    config.accumulation_steps = 4
    config.keep_best = False
    config.phases = ({"duration": "2 steps", "accumulation_steps": 1}, {"duration": "3 steps"})
    may = resume_rules.may_change(config)
    changed = directory.check(config.to_dict(), but=may)
    assert "accumulation_steps: 1 -> 4" in changed and "keep_best: True -> False" in changed
    config.phases = ({"duration": "2 steps"}, {"duration": "4 steps"})
    for field in ("batch_size", "seed"):
        assert field not in may
    try:
        directory.check(config.to_dict(), but=may)
    except ValueError as error:
        assert "the fields that differ:\n  phases: " in str(error)
    else:
        raise AssertionError("phases of other lengths are another run")


def test_adasum_adds_up_the_gradients_of_each_part_otherwise():
    config = experiment.new("digits_lstm")
    assert "simulated_replicas" in resume_rules.may_change(config)
    config.optimizer = {"name": "lamb", "adasum": True}
    assert "simulated_replicas" not in resume_rules.may_change(config)
    assert "evaluate_on" in resume_rules.may_change(config, "eval")


def test_recomputation_may_be_switched_and_no_other_field_of_the_model(tmp_path):
    config = experiment.new("bert_pretraining", model="bert_tiny")
    directory = RunDirectory(str(tmp_path))
    directory.open(config.to_dict(), [])
    config.model.recompute = True
    may = resume_rules.may_change(config)
    assert directory.check(config.to_dict(), but=may) == ["model.recompute: False -> True"]
    config.model.layers += 1
    with pytest.raises(ValueError, match="model.layers: 2 -> 3"):
        directory.check(config.to_dict(), but=may)
