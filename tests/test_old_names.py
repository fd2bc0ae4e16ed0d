"""Names of earlier versions resolve to those of today, and warn once."""

import os

import pytest

from tests.helpers import preloaded
from tfbigbatch import old_names

_SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "helpers", "old_name_resolved.py")
_RENAMED = {old: ".".join(new) for old, new in old_names.RENAMED.items()}


@pytest.mark.parametrize("old, new", {**old_names.MOVED, **_RENAMED}.items())
def test_an_old_name_is_that_of_today_and_warns_once(old, new):
    done = preloaded.run(_SCRIPT, old, new)
    assert done.returncode == 0, done.stderr[-3000:]
