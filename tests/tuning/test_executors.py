"""Searches in each kind of executor, with a made-up trainer and with the real one."""

import concurrent.futures
import contextlib
import glob
import os
import shutil
import signal
import threading
import time

import numpy as np
import pytest

from tests.helpers.fake_trainer import TOTAL
from tests.helpers.told_trainer import HALFWAY, calls, processes, steps_in, tell, told_trainer
from tests.test_docs import blocks
from tfbigbatch import Recipe
from tfbigbatch.config import new_config
from tfbigbatch.errors import InputError, Preempted
from tfbigbatch.run_directory.directory import RunDirectory
from tfbigbatch.tuning import tune as of_tune
from tfbigbatch.tuning.candidates import SearchSpace
from tfbigbatch.tuning.executors import Elsewhere, Here, as_executor
from tfbigbatch.tuning.halving import Rungs
from tfbigbatch.tuning.search import Search
from tfbigbatch.utils.signals import handling_signals

# No set of requirements has Ray; its tests run where it is installed.
OTHERS = ("dask", "pool", "local", "ray")


@contextlib.contextmanager
def given(name):
    """What a user gives for an executor: a Dask cluster or Ray on loopback, a pool of processes, a name, a number."""
    if name == "dask":
        distributed = pytest.importorskip("distributed")
        options = {"n_workers": 2, "threads_per_worker": 1, "host": "127.0.0.1", "dashboard_address": None}
        with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
            yield client
    elif name == "ray":
        # As docs/cluster.md has it.
        ray, names = pytest.importorskip("ray"), {"__name__": "docs/cluster.md"}
        exec(next(code for _, _, code in blocks("docs/cluster.md") if "RayExecutor" in code), names)
        with ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, _node_ip_address="127.0.0.1"):
            yield names["RayExecutor"](num_cpus=1)
    elif name == "pool":
        with concurrent.futures.ProcessPoolExecutor(2) as pool:
            yield pool
    else:
        if name == "local":
            pytest.importorskip("submitit")
        yield name


def search(executor, folder):
    """(the search of three candidates of the made-up trainer, which has run; its lines)."""
    config, said = new_config("digits_lstm"), []
    config.batch_size, config.duration, config.schedule.learning_rate = 32, f"{2 * TOTAL} steps", 0.004
    space = SearchSpace(config, dataset_size=1437, batch_size=64, search=("rate",))
    assert space.total_steps == TOTAL
    with as_executor(executor, str(folder))[0] as workers:
        found = Search(space, Rungs(3, (0.3,), (1,)), 1.6, str(folder), told_trainer, workers, None, say=said.append)
        found.prepare()
        found.run()
    return found, said


def candidate(folder, number):
    return os.path.join(folder, f"candidate-{number:02}")


@pytest.mark.parametrize("name", ["2", *OTHERS])
def test_a_search_is_the_same_in_each_executor(name, tmp_path):
    here, _ = search("here", tmp_path / "here")
    with given(name) as executor:
        found, said = search(executor, tmp_path / "there")
    assert [each.number for each in found.ranked()] == [each.number for each in here.ranked()]
    assert [each.steps for each in found.candidates] == [each.steps for each in here.candidates] == [30, 30, 100]
    assert not any("lost" in line for line in said)
    for each in found.candidates:
        made = processes(each.directory)
        assert len(made) == len(calls(each.directory)) and os.getpid() not in made
    assert not glob.glob(f"{tmp_path}/there/stop-*")


@pytest.mark.parametrize(
    "name, what",
    [("2", "kill"), ("pool", "kill"), ("pool", "terminate"), ("dask", "kill the parent"), ("ray", "kill the parent")],
)
def test_the_candidate_of_a_lost_worker_continues_from_where_it_was(name, what, tmp_path):
    os.makedirs(tmp_path / "there")
    tell(candidate(tmp_path / "there", 1), what)
    here, _ = search("here", tmp_path / "here")
    with given(name) as executor:
        found, said = search(executor, tmp_path / "there")
    assert calls(candidate(tmp_path / "there", 1)) == [(0, HALFWAY), (HALFWAY, 30)]
    assert [each.number for each in found.ranked()] == [each.number for each in here.ranked()]
    # Dask and Ray give the call to another worker themselves.
    lost = [line for line in said if line.startswith("lost       candidate 1 continues from its pause")]
    assert len(lost) == (0 if name in ("dask", "ray") else 1)


def test_a_pool_that_is_broken_ends_the_search_and_another_continues_it(tmp_path):
    tell(candidate(tmp_path, 1), "kill the parent")
    with given("pool") as pool, pytest.raises(InputError, match="BrokenProcessPool.* Give a new one; the same search"):
        search(pool, tmp_path)
    with given("pool") as pool:
        found, _ = search(pool, tmp_path)
    assert [each.steps for each in found.candidates] == [30, 30, 100]
    assert calls(candidate(tmp_path, 1)) == [(0, HALFWAY), (HALFWAY, 30)]


@pytest.mark.parametrize("name", ["2", "pool"])
@pytest.mark.parametrize("what, tries", [("refuse", 1), ("crash", 3)])
def test_what_is_refused_is_not_tried_again(name, what, tries, tmp_path):
    tell(candidate(tmp_path, 0), *[what] * 4)
    message = {"refuse": "a batch of nothing", "crash": "the disk is on fire"}[what]
    with given(name) as executor, pytest.raises(InputError, match=f"(?s)candidate 0 cannot be trained.*{message}"):
        search(executor, tmp_path)
    assert len(processes(candidate(tmp_path, 0))) == tries


@pytest.mark.parametrize("name", ["2", "dask", "pool", "ray", pytest.param("local", marks=pytest.mark.slow)])
def test_a_stop_lets_the_calls_save_and_the_same_search_continues(name, tmp_path):
    folders = [candidate(tmp_path, number) for number in range(3)]
    for each in folders[1:]:
        tell(each, "wait")

    def kill():
        end = time.monotonic() + 30
        while time.monotonic() < end and not any(steps_in(each) == HALFWAY for each in folders[1:]):
            time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGTERM)

    killer = threading.Thread(target=kill)
    with given(name) as executor:
        # Where the search has ended before, the signal does nothing.
        with handling_signals([signal.SIGTERM], lambda *unused: None):
            killer.start()
            with pytest.raises(Preempted, match="the same search continues where it is"):
                search(executor, tmp_path)
            killer.join()
        assert {steps_in(each) for each in folders[1:]} <= {0, HALFWAY}
        assert "preempted" in {RunDirectory(each).status().get("status") for each in folders[1:]}
        assert not glob.glob(f"{tmp_path}/stop-*")
        for each in folders:
            tell(each)
        found, _ = search(executor, tmp_path)
    assert [each.steps for each in found.candidates] == [30, 30, 100]


def test_here_no_call_is_made_after_one_that_a_signal_stopped():
    made = []

    def call(number):
        made.append(number)
        if number == 1:
            raise Preempted("stopped on request")

    with Here() as executor:
        futures = [executor.submit(call, number) for number in range(4)]
    assert made == [0, 1] and futures[0].exception() is None
    assert all(isinstance(each.exception(), Preempted) for each in futures[1:])


class Blind(concurrent.futures.Executor):
    """Its workers write into folders of their own."""

    def submit(self, function, /, *arguments):
        future = concurrent.futures.Future()
        future.set_result(None)
        return future


def test_a_folder_that_workers_do_not_share_is_named(tmp_path):
    with pytest.raises(InputError, match="candidate-00 is not there. All workers and this process must see the folder"):
        search(Blind(), tmp_path)


def test_a_call_that_another_executor_cancels_is_lost(tmp_path):
    class Cancels(Blind):
        def submit(self, function, /, *arguments):
            future = concurrent.futures.Future()
            future.cancel()
            future.set_running_or_notify_cancel()
            return future

    future = Elsewhere(Cancels(), str(tmp_path)).submit(print, model_dir=str(tmp_path))
    assert isinstance(future.exception(), RuntimeError)


@pytest.mark.parametrize("wrong", ["fast", 0, True, 2.0, object()])
def test_another_executor_is_refused(wrong, tmp_path):
    with pytest.raises(
        InputError, match="expected a concurrent.futures.Executor, a Dask client, a number of processes"
    ):
        as_executor(wrong, str(tmp_path))


@pytest.mark.skipif(bool(shutil.which("srun")), reason="this machine has Slurm")
def test_without_slurm_it_is_refused(tmp_path):
    pytest.importorskip("submitit")
    with pytest.raises(InputError, match="executor='slurm': Could not detect"):
        as_executor("slurm", str(tmp_path))


# ---- The real trainer -----------------------------------------------------------------------------


class Rows:
    """Examples by their number; reading the 400th in a process kills it, once."""

    def __init__(self, once=None):
        random = np.random.RandomState(0)
        self._x = random.normal(size=(320, 8)).astype("float32")
        self._y = (self._x @ random.normal(size=(8, 3))).argmax(1)
        self._once, self._read = once, 0

    def __len__(self):
        return 320

    def __getitem__(self, index):
        self._read += 1
        if self._once and self._read == 400 and not os.path.exists(self._once):
            with open(self._once, "w"):
                pass
            os.kill(os.getpid(), signal.SIGKILL)
        return self._x[index], self._y[index]


def network():
    from keras import Sequential, layers

    return Sequential([layers.Input((8,)), layers.Dense(16, "relu"), layers.Dropout(0.1), layers.Dense(3)])


def tuned(executor, folder, data=None, said=None):
    return of_tune.tune(
        network,
        data or Rows(),
        recipe=Recipe(16, 1e-3, 1, 6, "cosine", optimizer={"weight_decay": 0.01}),
        batch_size=32,
        budget=1.4,
        rungs=(0.25,),
        stay=(0.5,),
        search=("half_life", "warmup"),
        fields={"checkpoint_every": "4 steps"},
        executor=executor,
        folder=folder,
        say=(said if said is not None else []).append,
    )


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """Of the winner of a search in this process."""
    return tuned("here", tmp_path_factory.mktemp("here")).model.get_weights()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["2", *OTHERS])
def test_the_winner_is_the_same_bit_for_bit_in_each_executor(name, weights, tmp_path):
    with given(name) as executor:
        found = tuned(executor, tmp_path)
    assert len(found.candidates) == 2 and sorted(each.steps for each in found.candidates) == [14, 54]
    for one, other in zip(found.model.get_weights(), weights, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_a_candidate_whose_process_was_killed_ends_with_the_same_bits(weights, tmp_path):
    said = []
    found = tuned(2, tmp_path / "runs", Rows(str(tmp_path / "once")), said)
    assert os.path.exists(tmp_path / "once") and any(line.startswith("lost") for line in said)
    for one, other in zip(found.model.get_weights(), weights, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_worker_trains_the_model_of_the_search_that_asks(monkeypatch):
    """A process of a cluster outlives a search; another one's model has the same task."""
    trained = []
    monkeypatch.setattr(of_tune.train, "run", lambda **options: trained.append(of_tune.registry.get(of_tune._TASK)))
    definitions = [
        of_tune._pickled({"network": network, "data": Rows(), "validation_fraction": share}) for share in (0.1, 0.2)
    ]
    for each in (*definitions, definitions[1], definitions[0]):
        of_tune._advance(each, "train", model_dir="unused")
    assert [each.definition.validation_fraction for each in trained] == [0.1, 0.2, 0.2, 0.1]
