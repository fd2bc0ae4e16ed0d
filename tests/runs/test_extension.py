import pytest

from tfbigbatch.errors import InputError
from tfbigbatch.runs import extension
from tfbigbatch.runs.extension import Extension

STORED = {"config": {"duration": "10 epochs", "phases": []}}
LONGER = {"duration": "20 epochs", "phases": ()}
DONE = {"status": "done", "step": 300, "total_steps": 300}


def test_a_finished_run_is_extended_and_the_history_kept():
    found = extension.requested(STORED, DONE, LONGER, "run")
    assert found == Extension("10 epochs", 300, 300)
    content = extension.extended(STORED, found, "20 epochs")
    assert content["config"]["duration"] == "20 epochs" and STORED["config"]["duration"] == "10 epochs"
    assert content["extensions"] == [{"duration": "10 epochs", "step": 300, "total_steps": 300}]
    # Killed before the first status, and in progress: the same command resumes.
    assert not extension.is_finished(content, DONE)
    running = {"status": "running", "step": 400, "total_steps": 600}
    assert extension.requested(content, running, LONGER, "run") is None
    assert extension.is_finished(content, {"status": "done", "step": 600, "total_steps": 600})
    again = extension.extended(content, Extension("20 epochs", 600, 600), "30 epochs")
    assert [each["duration"] for each in again["extensions"]] == ["10 epochs", "20 epochs"]


@pytest.mark.parametrize(
    ("content", "status", "config", "said"),
    [
        (None, {}, LONGER, "holds no run. Leave --extend out"),
        (STORED, DONE, {"duration": "10 epochs", "phases": ()}, "'10 epochs' already. Give a longer one"),
        (STORED, DONE, {"duration": "10 epoch", "phases": ()}, "'10 epochs' already. Give a longer one"),
        (STORED, {**DONE, "status": "running", "step": 7}, LONGER, "not finished; it is at step 7"),
        (STORED, {}, LONGER, "not finished; it is at step 0"),
        (STORED, DONE, {**LONGER, "phases": ({},)}, "the run has phases"),
    ],
)
def test_what_cannot_be_extended(content, status, config, said):
    with pytest.raises(InputError, match=said):
        extension.requested(content, status, config, "run")
