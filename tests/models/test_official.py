import sys

import pytest

from tfbigbatch.models import official


def test_without_the_package_the_error_names_the_extra_and_tensorflow(monkeypatch):
    # As if it were not installed: no finder sees it, and no part of it is imported.
    for name in [each for each in sys.modules if each.partition(".")[0] == "official"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [])
    with pytest.raises(ValueError, match=r"pip install 'tfbigbatch\[models\]'\. It needs TensorFlow 2\.20\."):
        official.module("official.absent")


def test_another_missing_module_keeps_its_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "a_dependency", None)
    with pytest.raises(ModuleNotFoundError, match="a_dependency"):
        official.module("a_dependency")
