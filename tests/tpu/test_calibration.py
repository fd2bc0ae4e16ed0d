import pytest

from tests.tpu.made_checks import fitting
from tfbigbatch.tpu import calibration, plan_report, planning, topologies

STEP = planning.step_of(fitting())
RUNS = (
    calibration.Run("first", "v3-32", 60.0, (calibration.Part("one", 4096, 500),), "made up"),
    calibration.Run(
        "other", "v3-64", 60.0, (calibration.Part("one", 4096, 100), calibration.Part("one", 2048, 10)), "-"
    ),
    calibration.Run("unknown step", "v3-64", 60.0, (calibration.Part("two", 4096, 100),), "-"),
)


def test_the_fitted_run_takes_what_was_published():
    efficiency = calibration.fitted(RUNS[0], {"one": STEP})
    assert 0.01 < efficiency < 1.0
    assert calibration.seconds(RUNS[0], {"one": STEP}, efficiency) == pytest.approx(60.0)


def test_a_runs_parts_add_up():
    step = STEP._replace(batch_size=4096, updates=100), STEP._replace(batch_size=2048, updates=10)
    expected = sum(planning.plan(each, topologies.parse("v3-64"), 0.5).run for each in step)
    assert calibration.seconds(RUNS[1], {"one": STEP}, 0.5) == pytest.approx(expected)


def test_the_others_show_their_error():
    efficiency, compared = calibration.compare({"one": STEP}, RUNS)
    assert [each.run.name for each in compared] == ["first", "other"]
    assert compared[0].is_fitted and compared[0].error == pytest.approx(0.0, abs=1e-6)
    assert compared[1].error == pytest.approx(compared[1].estimate / 60.0 - 1)
    text = "\n".join(plan_report.comparison(efficiency, compared))
    assert "fitted" in text and f"{compared[1].error:+.0%}" in text
    assert calibration.compare({}, RUNS) == (None, [])


def test_published_runs_divide_over_their_slices():
    for run in calibration.RUNS:
        for part in run.parts:
            assert part.batch_size % topologies.parse(run.topology).replicas == 0


def test_a_plan_is_told_and_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    rows = [[planning.plan(STEP, topologies.parse(name), 0.3)] * 2 for name in ("v3-32", "v3-64")]
    lines = list(plan_report.lines(["phase 1", "phase 2"], rows))
    assert len(lines) == 1 + 2 * 3 and "v3-64" in lines[4] and lines[-1].endswith("all")
    plan_report.draw(str(tmp_path / "plan.png"), "a plan", rows)
    assert (tmp_path / "plan.png").stat().st_size > 1000


@pytest.mark.parametrize("seconds, words", [(59.6, "60 s"), (1200, "20 min"), (90_000, "25.0 h")])
def test_times_in_words(seconds, words):
    assert plan_report.time(seconds) == words
