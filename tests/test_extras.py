import configparser
import os
import re

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


@pytest.fixture(scope="module")
def setup():
    parser = configparser.ConfigParser()
    assert parser.read(os.path.join(ROOT, "setup.cfg"), encoding="utf-8")
    return parser


def test_the_gpu_extra_is_tensorflow_of_the_pinned_version_with_nvidias_libraries(setup):
    required = setup["options"]["install_requires"].split()
    (version,) = (name.removeprefix("tensorflow~=") for name in required if name.startswith("tensorflow~="))
    assert setup["options.extras_require"]["gpu"].split() == [f"tensorflow[and-cuda]~={version}"]
    with open(os.path.join(ROOT, "constraints.txt"), encoding="utf-8") as file:
        assert re.search(rf"^tensorflow=={re.escape(version)}$", file.read(), re.MULTILINE)


def test_no_other_extra_and_no_command_of_the_makefile_installs_it(setup):
    extras = setup["options.extras_require"]
    assert not [name for name in extras if name != "gpu" and re.search(r"and-cuda|[\[,]gpu\b", extras[name])]
    for name in ("Makefile", ".ci/run"):
        with open(os.path.join(ROOT, name), encoding="utf-8") as file:
            assert not re.search(r"and-cuda|[\[,]gpu\b", file.read())
