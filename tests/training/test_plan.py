"""The batch arithmetic, and the steps after which something is due."""

import types

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfbigbatch.training.phases import EVENTS, Phase, batch_line


@pytest.mark.parametrize(
    "arguments, said",
    [
        ((500, 4, 2, 1437), "does not divide by 4 accumulation steps x 2 replicas = 8. The nearest that does: 496"),
        ((2048, 1, 1, 1437), "batch_size=2048 is larger than the training set of 1437 examples"),
    ],
)
def test_what_cannot_be_split_is_refused(arguments, said):
    with pytest.raises(ValueError, match=said):
        batch_line(*arguments)


def phase(*, steps, first_step, batch, first_example=0, is_last=True, **examples):
    """A phase whose intervals are of so many examples; 0 for none."""
    unused = dict.fromkeys(("task", "evaluation_batch_size", "tuned", "scaled", "learning_rate", "lines"))
    return Phase(
        config=types.SimpleNamespace(batch_size=batch),
        first_step=first_step,
        total_steps=steps,
        every=examples,
        first_example=first_example,
        is_last=is_last,
        **unused,
    )


BATCH = st.sampled_from([1, 7, 48, 192])
EXAMPLES = st.one_of(st.just(0), st.integers(1, 3000))


@given(
    steps=st.integers(1, 60),
    first_step=st.integers(0, 60),
    batch=BATCH,
    # Of a stage of a batch ramp, where an interval is a fraction of steps.
    first_example=EXAMPLES,
    is_last=st.booleans(),
    log=EXAMPLES,
    evaluate=EXAMPLES,
    save=EXAMPLES,
)
def test_events_are_due_after_as_many_examples_and_no_call_of_steps_passes_one(
    steps, first_step, batch, first_example, is_last, log, evaluate, save
):
    intervals = {"log": log, "evaluate": evaluate, "save": save}
    made = phase(
        steps=steps, first_step=first_step, batch=batch, first_example=first_example, is_last=is_last, **intervals
    )
    # Whole numbers: examples seen before a step of the phase. Rows count from the run's first step in this batch.
    before = {"log": first_step * batch}
    before["evaluate"] = before["save"] = first_example or first_step * batch
    due = {}
    for event, every in (("log", log), ("evaluate", evaluate), ("save", save)):
        ends = [before[event] + batch * number for number in range(steps + 1)]
        due[event] = {
            first_step + number
            for number in range(1, steps + 1)
            if every and ends[number] // every > ends[number - 1] // every
        }
    due["save"].add(made.last_step)
    if is_last:
        due["evaluate"].add(made.last_step)
    all_steps = range(first_step + 1, made.last_step + 1)
    assert due == {event: {step for step in all_steps if made.is_due(event, step)} for event in EVENTS}
    ends = sorted(set().union(*due.values()))
    for step in range(first_step, made.last_step):
        assert step + made.steps_to_next_event(step) == next(end for end in ends if end > step)
