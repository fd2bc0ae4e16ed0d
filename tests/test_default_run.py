"""The combinations of a parametrized test that the default run takes."""

import itertools
from types import SimpleNamespace

from tests.helpers import covering


class Item:
    """What pytest collects for one combination, as far as `covering` reads it."""

    def __init__(self, name, axes, values):
        self.nodeid = f"{name}[{values}]"
        self.callspec = SimpleNamespace(params=dict(zip(axes, values)))
        self._axes, self.marks = axes, []

    def iter_markers(self, name):
        return (SimpleNamespace(args=(axis, None)) for axis in self._axes)

    def get_closest_marker(self, name):
        return None

    def add_marker(self, mark):
        self.marks.append(mark)


def default(axes):
    items = [Item("test", list(axes), values) for values in itertools.product(*axes.values())]
    covering.mark_the_rest_slow(items)
    return [tuple(item.callspec.params.values()) for item in items if not item.marks]


def test_each_value_of_each_argument_is_taken():
    options = [{"clipnorm": 1.0}, {}, {"weight_decay": 0.1}]
    taken = default({"keras": ["tf_keras", "keras3"], "name": ["lars", "lamb", "muon"], "option": options})
    assert len(taken) == 3
    assert {keras for keras, _, _ in taken} == {"tf_keras", "keras3"}
    assert {name for _, name, _ in taken} == {"lars", "lamb", "muon"}
    assert all(option in [found for _, _, found in taken] for option in options)


def test_a_test_of_one_argument_is_taken_whole():
    assert len(default({"shape": [(2, 3), (3, 2), (4,)]})) == 3
