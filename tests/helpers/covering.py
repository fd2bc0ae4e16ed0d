"""Which combinations of a parametrized test the default run takes: each value of each argument at least once."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import pytest

Values = set[Hashable]


def mark_the_rest_slow(items: Sequence[pytest.Item]) -> None:
    """Marks as slow those items of each parametrized test that a covering set leaves out.

    A test of two Kerases, six optimizers and three options is 36 runs, where six see every Keras, optimizer and option.
    `make test-slow` takes the others.
    """
    families: dict[str, list[tuple[pytest.Item, Values]]] = {}
    for item in items:
        if not item.get_closest_marker("slow"):
            families.setdefault(item.nodeid.partition("[")[0], []).append((item, _values(item)))
    for family in families.values():
        for item in _left_out(family):
            item.add_marker(pytest.mark.slow)


def _values(item: pytest.Item) -> Values:
    """An entry for each argument, or arguments that are parametrized together, and its value in this item."""
    callspec = getattr(item, "callspec", None)
    if callspec is None:
        return set()
    params, found = dict(callspec.params), set()
    for marker in item.iter_markers("parametrize"):
        names = marker.args[0]
        names = tuple(name.strip() for name in names.split(",")) if isinstance(names, str) else tuple(names)
        # Values need not be hashable: one list of values is shared by all items, so that identity tells them apart.
        found.add((names, tuple(id(params.pop(name)) for name in names if name in params)))
    # Of parametrized fixtures.
    found.update((name, id(value)) for name, value in params.items())
    return found


def _left_out(family: Sequence[tuple[pytest.Item, Values]]) -> list[pytest.Item]:
    """Greedily takes the item with most values that none has yet, the first of equals, until every value is there."""
    unseen = set().union(*(values for _, values in family))
    rest = list(family)
    while unseen and rest:
        best = max(rest, key=lambda entry: len(unseen & entry[1]))
        unseen -= best[1]
        rest.remove(best)
    return [item for item, values in rest if len(values) > 1]
