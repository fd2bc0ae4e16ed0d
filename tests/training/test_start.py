"""What a run records of its start."""

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tfbigbatch import train
from tfbigbatch.run_directory.directory import RunDirectory
from tfbigbatch.utils.startup import StartTimings


def test_a_run_and_its_resume_time_their_starts(tmp_path, quick_config):
    config, folder = quick_config(), str(tmp_path)
    train.run(config, model_dir=folder, stop_after=12, timings=StartTimings(age=1.0))
    first = RunDirectory(folder).status()["start"]
    parts = ["config", "tensorflow", "devices", "data", "model", "input", "tracing", "first_step"]
    assert first.keys() == {*parts, "total", "traces"} and first["traces"] == 1 and first["config"] >= 1.0
    assert abs(first["total"] - sum(first[name] for name in parts)) < 0.01
    counted = RunDirectory(folder).status()["goodput"]
    assert counted["restarts"] >= 1.0 and min(counted[part] for part in ("compile", "useful", "save", "evaluate")) > 0.0
    # The last loop of an epoch has 4 steps.
    train.run(config, model_dir=folder)
    second = RunDirectory(folder).status()["start"]
    assert second.keys() == first.keys() | {"checkpoint"} and second["traces"] == 1
    both = RunDirectory(folder).status()["goodput"]
    assert (both["starts"], both["repeated_steps"]) == (2, 4)
    assert both["restarts"] > counted["restarts"] and both["wall"] > counted["wall"]
    tags = EventAccumulator(f"{folder}/train").Reload().Tags()["tensors"]
    assert {"goodput/fraction", "goodput/useful", "goodput/restarts"} <= set(tags)
