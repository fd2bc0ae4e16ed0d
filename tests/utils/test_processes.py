"""What the workers of a preparation do where something goes wrong; their tasks lie where no TensorFlow is imported."""

import pytest

from tests.helpers import image_sets
from tfbigbatch.utils import processes as workers


def run(function, processes):
    ended = []
    with workers.bar(3, 0, "task") as progress:
        workers.run(
            function, [0, 1, 2], processes=processes, ended=lambda task, result: ended.append(task), progress=progress
        )


def test_a_worker_that_dies_is_told():
    with pytest.raises(ValueError, match="A worker process died; perhaps memory ran out.*fewer --processes"):
        run(image_sets.dies, 2)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_task_that_fails_stops_the_others_and_its_message_arrives(processes):
    with pytest.raises(ValueError, match="task 0 cannot be done"):
        run(image_sets.fails, processes)
