import pytest

from tests.helpers.made_checks import fitting
from tfbigbatch.tpu import planning, topologies
from tfbigbatch.tpu.chips import CHIPS

STEP = planning.step_of(fitting())
V3 = CHIPS["v3"]


def at(name, step=STEP, **options):
    return planning.plan(step, topologies.parse(name), **options)


def test_a_step_of_a_check():
    assert STEP.flops == 24e9 and STEP.reduced_bytes == 100e6 and STEP.micro_batch == 128
    assert STEP.weight_bytes == 2 * 200e6 + 8 * 25e6
    assert STEP.example_bytes == pytest.approx(0.3e9)


def test_the_times_are_the_arithmetic():
    found = at("v3-32")
    assert (found.micro_batch, found.accumulation_steps) == (128, 1)
    # Two replicas share a chip.
    assert found.compute == pytest.approx(2 * 128 * 24e9 / 123e12)
    assert found.memory == pytest.approx((2 * 128 * 0.3e9 + 2 * 0.6e9) / 900e9)
    assert found.all_reduce == pytest.approx(2 * 15 / 16 * 100e6 / (340e12 / 1024))
    assert found.memory > found.compute == found.bound and found.limit == "memory"
    assert found.estimate == pytest.approx(found.memory + found.all_reduce)
    assert found.run == pytest.approx(1000 * found.estimate)
    assert found.host_rate == pytest.approx(4096 / found.estimate / 4)


def test_the_efficiency_slows_the_chip_and_not_the_links():
    fast, slow = at("v3-32"), at("v3-32", fit=planning.Fit(0.5))
    assert slow.estimate - slow.all_reduce == pytest.approx(2 * (fast.estimate - fast.all_reduce))
    assert slow.bound == fast.bound


def test_no_efficiency_computes_above_the_peak():
    step = STEP._replace(flops=1e13)
    assert at("v3-32", step, fit=planning.Fit(1.5)).estimate == at("v3-32", step).estimate > at("v3-32", step).compute


def test_what_is_fixed_adds_to_every_update_and_may_be_the_limit():
    found = at("v3-32", fit=planning.Fit(1.0, 2.0))
    assert found.estimate == pytest.approx(at("v3-32").estimate + 2.0) and found.limit == "fixed"
    assert found.bound == at("v3-32").bound


def test_fewer_chips_accumulate_and_more_shrink_the_batch():
    few, many = at("v3-8"), at("v3-512")
    assert (few.micro_batch, few.accumulation_steps) == (128, 4)
    assert (many.micro_batch, many.accumulation_steps) == (8, 1)
    assert few.compute == pytest.approx(4 * at("v3-32").compute)
    assert at("v3-2048").micro_batch == 2
    assert at("v3-2048", STEP._replace(batch_size=1024)) is None


def test_the_all_reduce_becomes_the_limit():
    assert at("v3-2048", STEP._replace(reduced_bytes=1e11)).limit == "all-reduce"
    assert at("v3-32", STEP._replace(flops=1e13)).limit == "compute"


def test_an_update_reads_and_writes_its_weights_at_least():
    found = at("v3-32", STEP._replace(flops=1.0))
    assert found.bound == pytest.approx(2 * 0.6e9 / 900e9)


def test_one_chip_sends_nothing():
    assert planning.all_reduce_seconds(1e9, topologies.parse("v5e:1")) == 0.0


@pytest.mark.parametrize(
    "fields, said",
    [
        ({"fits": False}, "not compiled or does not fit"),
        ({"uncounted_loops": 2}, "iterations of 2 loop.s. in the program is unknown"),
    ],
)
def test_what_cannot_be_planned_is_told(fields, said):
    with pytest.raises(ValueError, match=said):
        planning.step_of(fitting(**fields))


def test_an_accumulating_step_gives_the_costs_of_an_example_and_its_pass():
    found = planning.step_of(fitting(accumulation_steps=4))
    assert found.micro_batch == 32
    assert found._replace(micro_batch=128) == planning.step_of(fitting())


def test_another_generation_is_refused():
    with pytest.raises(ValueError, match="compiled for v3.*Check it there first"):
        at("v5e:16")
