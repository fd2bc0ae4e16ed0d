"""Real data sets, each in a folder of its name."""

import os

import pytest


def path(*names):
    """The path of a real folder or file; the test skips where it is not at hand."""
    found = os.path.join(os.environ.get("TFBIGBATCH_DATA", "data"), *names)
    if not os.path.exists(found):
        pytest.skip(f"{found} is not at hand (TFBIGBATCH_DATA)")
    return found
