"""The extra `addons`: tensorflow-addons, where it has a wheel; tests/parity puts it on Keras 2, to run it."""

import importlib.metadata
import sys

if sys.version_info < (3, 12):
    assert importlib.metadata.version("tensorflow-addons") == "0.23.0"
