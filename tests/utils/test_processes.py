"""The pool of data preparation; tests/data have it at work."""

import pytest

from tests.helpers.datasets import image_sets
from tfbigbatch.utils.processes import progress_bar, run_tasks


def run_three(function, processes):
    ended = []
    with progress_bar(3, 0, "task") as progress:
        run_tasks(
            function, [0, 1, 2], processes=processes, ended=lambda task, result: ended.append(task), progress=progress
        )


def test_a_worker_that_dies_is_reported():
    with pytest.raises(ValueError, match="A worker process died; perhaps memory ran out.*fewer --processes"):
        run_three(image_sets.dies, 2)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_task_that_fails_stops_the_others_and_its_message_arrives(processes):
    with pytest.raises(ValueError, match="task 0 cannot be done"):
        run_three(image_sets.fails, processes)
