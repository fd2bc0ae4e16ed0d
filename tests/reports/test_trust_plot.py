import numpy as np
import pytest

from tests.helpers import made_runs
from tfbigbatch.reports.trust_plot import limits, trust_map, trust_ratios
from tfbigbatch.runs.scalars import Scalars


def test_the_ratios_are_found_by_the_variables_paths(tmp_path):
    looks = {
        step: {"layers/trust_ratio/lstm/kernel": step / 2, "layers/weight_norm/lstm/kernel": 1.0} for step in (2, 4)
    }
    made_runs.write(tmp_path, {}, train=looks)
    assert trust_ratios(Scalars(str(tmp_path))) == {"lstm/kernel": {2: 1.0, 4: 2.0}}


def test_one_colour_is_one_ratio_in_all_maps():
    maps = [{"a": {1: 0.1, 2: 0.0}}, {"b": {1: 5.0, 2: float("inf"), 3: float("nan")}}]
    assert limits(maps) == (0.1, 5.0)
    for alike in ([{"a": {1: 1.0}}], [], [{"a": {1: 0.0}}]):
        least, largest = limits(alike)
        assert 0.0 < least == 1.0 < largest


@pytest.mark.parametrize("variables, looks", [(1, 1), (70, 3)])
def test_it_is_drawn_with_gaps(tmp_path, variables, looks):
    layers = {
        f"layer_{number}/$kernel$": {10 * (look + 1): 0.5 + number for look in range(looks)}
        for number in range(variables)
    }
    layers["layer_0/$kernel$"][10] = 0.0
    layers["late"] = {10 * looks: float("nan")}
    trust_map(str(tmp_path / "map.png"), layers, "a title", *limits([layers]))
    import matplotlib.image

    picture = matplotlib.image.imread(tmp_path / "map.png")
    assert picture.ndim == 3 and np.ptp(picture) > 0.5
