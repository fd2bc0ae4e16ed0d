"""Local steps in real processes on loopback: the numbers, the bits, and the bytes between them."""

import numpy as np
import pytest

from tests.distributed.local_steps_worker import CASES, EVERY, SIZE, STEPS, curvature, minimum
from tests.distributed.test_optimizers import run_together
from tests.helpers.references.local_steps_in_numpy import trained

# Of both versions of Keras, and both outer optimizers; the others are in tests/optimizers/local_steps with replicas.
QUICK = ["average", "delayed"]


@pytest.fixture(
    scope="module",
    params=[(2, QUICK), *(pytest.param((count, list(CASES)), marks=pytest.mark.slow) for count in (2, 4))],
    ids=["2-quick", "2", "4"],
)
def workers(request, tmp_path_factory):
    """What each process ended with: a list of dictionaries of arrays."""
    count, cases = request.param
    directory = tmp_path_factory.mktemp("cluster")
    run_together(count, directory, "tests.distributed.local_steps_worker", *cases)
    ends = [dict(np.load(directory / f"worker{i}.npz")) for i in range(count)]
    assert set(cases) <= set(ends[0])
    return ends


def test_each_process_takes_its_own_steps_and_outer_steps_combine_them(workers):
    for case in CASES:
        if case in workers[0]:
            check_the_steps(workers, case)


def check_the_steps(workers, case):
    replicas, options = len(workers), dict(CASES[case][1])
    if options.get("outer") == "nesterov":
        options.update(outer_learning_rate=0.7, outer_momentum=0.9)
    scale, middle = curvature(replicas), minimum(replicas)
    for steps in range(1, STEPS + 2):
        expected = trained(
            np.ones(SIZE),
            lambda weights, replica, step: scale[replica] * (weights - middle[replica]),
            replicas=replicas,
            steps=min(steps, STEPS),
            learning_rate=lambda step: 0.1,
            momentum=0.9,
            synchronize=steps > STEPS,
            **options,
        )
        actual = np.concatenate([worker[case][steps - 1] for worker in workers])
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6, err_msg=f"{case}, step {steps}")
    np.testing.assert_array_equal(actual, [actual[0]] * replicas)


def test_a_round_sends_what_one_step_of_data_parallelism_does(workers):
    everyone = {kind: int(workers[0][f"bytes/{kind}"]) for kind in ("data_parallel", "local", "late")}
    # Loopback also carries what holds the cluster together.
    assert everyone["local"] == pytest.approx(everyone["data_parallel"] / EVERY, rel=0.05)
    assert everyone["late"] == pytest.approx(everyone["data_parallel"] / EVERY, rel=0.05)
