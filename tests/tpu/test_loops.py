import os

import pytest

from tfbigbatch.tpu import loops

# A loop of 2 turns around one of 8 and one of as many as that had turned, as accumulation around an LSTM.
with open(os.path.join(os.path.dirname(__file__), "sample_loops.txt"), encoding="utf-8") as file:
    PROGRAM = file.read()


def turns_of(text):
    _, iterations = loops.whole_cost(text, {"flops": 0}, multiplications)
    return {name.removeprefix("%").removesuffix("_body"): number for name, number in iterations.items()}


def multiplications(text):
    """What a compiler counts: those of the entry and of one turn of its loops."""
    blocks = {block.removeprefix("ENTRY ").split(" ")[0]: block for block in text.split("\n\n") if "{\n" in block}
    entry = text.split("ENTRY ")[1].split(" ")[0]

    def count(name):
        bodies = [line.split("body=")[1] for line in blocks[name].splitlines() if " while(" in line]
        return blocks[name].count(" multiply(") + sum(map(count, bodies))

    return {"flops": count(entry)}


def test_turns_are_read_from_the_counters():
    assert turns_of(PROGRAM) == {"forward": 8, "backward": 8, "accumulation": 2}
    assert turns_of("HloModule nothing") == {}


@pytest.mark.parametrize(
    "known, instead, unknown",
    [
        ("add(%one.1, %count.1)", "add(%count.1, %count.1)", {"forward", "backward"}),
        ("%limit.2 = s32[]{:T(256)} constant(8)", "%limit.2 = s32[]{:T(256)} parameter(1)", {"forward", "backward"}),
        ("compare(%count.6, %limit.4), direction=LT", "xor(%count.6, %limit.4)", {"backward"}),
        ("tuple(%zero.3, %product.4)", "fusion(%zero.3, %product.4), kind=kLoop", {"accumulation"}),
    ],
)
def test_turns_that_the_text_does_not_tell_are_none(known, instead, unknown):
    assert known in PROGRAM
    turns = turns_of(PROGRAM.replace(known, instead))
    assert {name for name, number in turns.items() if number is None} == unknown


@pytest.mark.parametrize(
    "known, instead, turns",
    [
        ("compare(%count.6, %limit.4), direction=LT", "compare(%count.6, %limit.4), direction=LE", 9),
        ("compare(%count.6, %limit.4), direction=LT", "compare(%count.6, %limit.4), direction=GT", 0),
        # A limit that becomes the counter of the turn before.
        ("tuple(%count.5, %product.3, %limit.3)", "tuple(%count.5, %product.3, %count.4)", 1),
        ("add(%count.4, %one.2)", "subtract(%count.4, %minus_three)", 3),
        (
            "ROOT %less.2 = pred[]{:T(1024)} compare(%count.6, %limit.4), direction=LT",
            # As the gradient of an LSTM's loop has it: two limits at once.
            "%less.2 = pred[]{:T(1024)} compare(%count.6, %limit.4), direction=LT\n"
            "  %minus = s32[] constant(-1)\n  %less_by = s32[] multiply(%count.6, %minus)\n"
            "  %five = s32[] constant(5)\n  %left = s32[] add(%less_by, %five)\n"
            "  %more = pred[] compare(%left, %minus), direction=GT\n  ROOT %both = pred[] and(%less.2, %more)",
            6,
        ),
    ],
)
def test_other_conditions_and_steps(known, instead, turns):
    assert known in PROGRAM
    one = "  %one.2 = s32[]{:T(256)} constant(1)\n"
    text = PROGRAM.replace(one, f"{one}  %minus_three = s32[] constant(-3)\n").replace(known, instead)
    assert turns_of(text) == {"forward": 8, "backward": turns, "accumulation": 2}


def test_every_turn_is_counted():
    once = multiplications(PROGRAM)
    assert once == {"flops": 1 + 1 + 2}
    assert loops.whole_cost(PROGRAM, once, multiplications)[0] == {"flops": 1 + 2 * (8 * 1 + 8 * 2)}
