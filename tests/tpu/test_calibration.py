import pytest

from tests.helpers.made_checks import fitting
from tfbigbatch.tpu import calibration, plan_report, planning, topologies

STEP = planning.step_of(fitting())
FIT = planning.Fit(0.4, 0.01)
_ONE = (calibration.Part("one", 4096, 500),)


def run(name, topology, parts, fit=FIT, fits=False):
    """A run that took what the estimate by a fit is."""
    of_unknown = calibration.Run(name, topology, 60.0, parts, "made up", fits)
    if any(part.step != "one" for part in parts):
        return of_unknown
    return of_unknown._replace(seconds=calibration.seconds(of_unknown, {"one": STEP}, fit))


RUNS = (
    run("first", "v3-32", _ONE, fits=True),
    run("second", "v3-512", _ONE, fits=True),
    run("slower", "v3-64", (*_ONE, calibration.Part("one", 2048, 10)), planning.Fit(0.2, 0.02)),
    run("unknown step", "v3-64", (calibration.Part("two", 4096, 100),)),
)


def test_two_runs_give_the_fit():
    found = calibration.fitted(RUNS[:2], {"one": STEP})
    assert found == (pytest.approx(0.4), pytest.approx(0.01))


def test_runs_that_no_fit_explains_are_told():
    first, second = RUNS[:2]
    with pytest.raises(ValueError, match="no efficiency.*first.*second"):
        calibration.fitted((first, second._replace(seconds=2 * first.seconds)), {"one": STEP})
    with pytest.raises(ValueError, match="no efficiency"):
        calibration.fitted((first, first), {"one": STEP})


def test_a_runs_parts_add_up():
    step = STEP._replace(batch_size=4096, updates=500), STEP._replace(batch_size=2048, updates=10)
    expected = sum(planning.plan(each, topologies.parse("v3-64"), FIT).run for each in step)
    assert calibration.seconds(RUNS[2], {"one": STEP}, FIT) == pytest.approx(expected)


def test_the_others_show_their_error():
    fit, fitted_on, compared = found = calibration.compare({"one": STEP}, "v3", RUNS)
    assert fit == (pytest.approx(0.4), pytest.approx(0.01)) and fitted_on == "v3"
    assert [each.run.name for each in compared] == ["first", "second", "slower"]
    assert [each.is_fitted for each in compared] == [True, True, False]
    assert compared[1].error == pytest.approx(0.0, abs=1e-6)
    assert compared[2].error == pytest.approx(-0.5, abs=0.01)
    text = "\n".join(plan_report.comparison(found, "v3"))
    assert "fitted" in text and "-50%" in text and "2.0 to 2.0 times" in text and text.count("made up") == 1
    assert "no run on v5e" in "\n".join(plan_report.comparison(found, "v5e"))
    assert calibration.compare({}, "v3", RUNS) is None


def test_each_generation_has_its_own_fit_where_runs_of_it_are_published():
    steps = {"one": STEP, "four": STEP._replace(generation="v4")}
    unlike = calibration.Run("unlike", "v4:4x4x4", 60.0, (calibration.Part("four", 4096, 10),), "-")
    assert len(calibration.compare(steps, "v3", (*RUNS, unlike)).compared) == 3
    # Without a pair of its own to fit to, it goes by v3's, and all are shown.
    fallen_back = calibration.compare(steps, "v4", (*RUNS, unlike))
    assert fallen_back.fitted_on == "v3" and fallen_back.compared[-1].run is unlike
    pair = [
        unlike._replace(
            topology=name, fits=True, seconds=10 * planning.plan(steps["four"], topologies.parse(name)).estimate
        )
        for name in ("v4:2x2x2", "v4:8x8x8")
    ]
    own = calibration.compare(steps, "v4", (*RUNS, *pair))
    assert own.fitted_on == "v4" and own.fit.efficiency == pytest.approx(1.0) and len(own.compared) == 2


def test_published_runs_divide_over_their_slices():
    for run in calibration.RUNS:
        for part in run.parts:
            assert part.batch_size % topologies.parse(run.topology).replicas == 0
    for generation in ("v3", "v4"):
        assert (
            sum(run.fits and topologies.parse(run.topology).generation == generation for run in calibration.RUNS) == 2
        )


def test_a_plan_is_told_and_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    rows = [[planning.plan(STEP, topologies.parse(name), FIT)] * 2 for name in ("v3-32", "v3-64")]
    lines = list(plan_report.lines(["phase 1", "phase 2"], rows))
    assert len(lines) == 1 + 2 * 3 and "v3-64" in lines[4] and lines[-1].endswith("all")
    plan_report.draw(str(tmp_path / "plan.png"), "a plan", rows)
    assert (tmp_path / "plan.png").stat().st_size > 1000


@pytest.mark.parametrize("seconds, words", [(3.95, "3.95 s"), (59.6, "60 s"), (1200, "20 min"), (90_000, "25.0 h")])
def test_times_in_words(seconds, words):
    assert plan_report.time(seconds) == words
