"""Local steps in real processes on loopback: the numbers, the bits, and the bytes between them."""

import numpy as np
import pytest
import tensorflow as tf

from tests.distributed.worker import run_together
from tests.helpers.keras_versions import KERAS, make, variables
from tests.helpers.local_quadratic import Quadratic, expected
from tfbigbatch.training.strategy import any_worker

STEPS = 8
# Name of a case: the Keras, and LocalSteps' arguments. The versions take turns.
CASES = {
    "average": ("tf_keras", {"every": 3}),
    "nesterov": ("keras3", {"every": 2, "outer": "nesterov"}),
    "adasum": ("tf_keras", {"every": 2, "outer": "adasum"}),
    "groups": ("tf_keras", {"every": 3, "group_size": 2}),
    "post_local": ("keras3", {"every": 2, "data_parallel_steps": 4}),
}
# Of the variable whose bytes are counted: 4 MB.
LARGE = 2**20
EVERY, COUNTED_STEPS = 8, 16


def stepped(strategy, keras_version, options):
    """This process's replicas' weights after each step, and after `synchronize`: [STEPS + 1, replicas here, 3]."""
    problem = Quadratic(strategy, keras_version, options)
    found = [problem.train(step, step + 1) for step in range(STEPS)]
    problem.optimizer.synchronize()
    return np.array([*found, problem.weights()])


def bytes_sent(strategy, options):
    """Bytes on loopback in COUNTED_STEPS steps of a large variable; None in `options`: the optimizer alone."""
    with strategy.scope():
        [weight] = variables("tf_keras", {"kernel": np.zeros(LARGE)})
        optimizer = KERAS["tf_keras"].optimizers.SGD(0.1)
        if options is not None:
            optimizer = make("tf_keras", "LocalSteps", optimizer=optimizer, **options)
        optimizer.build([weight])

    @tf.function
    def step():
        strategy.run(lambda: optimizer.apply_gradients([(tf.ones(LARGE), weight)]))

    for _ in range(EVERY):
        step()
    any_worker(strategy, False)
    before = _received()
    for _ in range(COUNTED_STEPS):
        step()
    any_worker(strategy, False)
    return _received() - before


def _received():
    """Bytes that loopback has carried."""
    with open("/proc/net/dev") as lines:
        return next(int(line.split(":")[1].split()[0]) for line in lines if line.strip().startswith("lo:"))


def in_a_worker(strategy, directory, *cases):
    arrays = {name: stepped(strategy, *CASES[name]) for name in cases}
    for name, options in (("data_parallel", None), ("local", {"every": EVERY})):
        arrays[f"bytes/{name}"] = np.array(bytes_sent(strategy, options))
    return arrays


# Of both versions of Keras, and both outer optimizers; tests/optimizers has the others with replicas.
QUICK = ["average", "nesterov"]


@pytest.fixture(
    scope="module",
    params=[(2, QUICK), *(pytest.param((count, list(CASES)), marks=pytest.mark.slow) for count in (2, 4))],
    ids=["2-quick", "2", "4"],
)
def workers(request, tmp_path_factory):
    """What each process ended with: a list of dictionaries of arrays."""
    count, cases = request.param
    ends = run_together(count, tmp_path_factory.mktemp("cluster"), in_a_worker, *cases)
    assert set(cases) <= set(ends[0])
    return ends


def test_each_process_takes_its_own_steps_and_outer_steps_combine_them(workers):
    for case in set(CASES) & set(workers[0]):
        options, replicas = CASES[case][1], len(workers)
        for steps in range(1, STEPS + 2):
            wanted = expected(min(steps, STEPS), options, replicas, synchronize=steps > STEPS)
            actual = np.concatenate([worker[case][steps - 1] for worker in workers])
            np.testing.assert_allclose(actual, wanted, rtol=1e-5, atol=1e-6, err_msg=f"{case}, step {steps}")
        np.testing.assert_array_equal(actual, [actual[0]] * replicas)


def test_a_round_sends_what_one_step_of_data_parallelism_does(workers):
    everyone = {kind: int(workers[0][f"bytes/{kind}"]) for kind in ("data_parallel", "local")}
    # Loopback also carries what holds the cluster together.
    assert everyone["local"] == pytest.approx(everyone["data_parallel"] / EVERY, rel=0.05)
