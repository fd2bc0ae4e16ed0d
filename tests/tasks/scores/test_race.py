import numpy as np
import pytest

from tfbigbatch.tasks.scores import race


def test_all_is_over_the_questions():
    levels = ["middle", "high", "high", "high"]
    result = race.scores(np.array([0, 1, 2, 3]), np.array([0, 1, 0, 0]), levels)
    assert result == {"middle": 100.0, "high": pytest.approx(100 / 3), "all": 50.0, "total": 4}
    assert race.scores([1], [1], ["middle"]) == {"middle": 100.0, "all": 100.0, "total": 1}


@pytest.mark.parametrize(
    "labels, predictions, levels, said",
    [
        ([1, 2], [1], ["high", "high"], "expected three arrays of one length"),
        ([], [], [], "not empty"),
    ],
)
def test_what_cannot_be_scored_is_refused(labels, predictions, levels, said):
    with pytest.raises(ValueError, match=said):
        race.scores(labels, predictions, levels)
