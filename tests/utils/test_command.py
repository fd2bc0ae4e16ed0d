"""Fields of a config among the flags of a command line."""

import os

import pytest
from absl import flags

from tests.helpers import preloaded
from tfbigbatch.utils import command


@pytest.fixture
def with_flags():
    missing = [name for name in ("config.FIELD", "grid.FIELD", "config") if name not in flags.FLAGS]
    for name in missing:
        flags.DEFINE_multi_string(name, [], "")
    yield
    flags.FLAGS.remove_flag_values(missing)
    flags.FLAGS.unparse_flags()


def test_fields_are_values_of_one_flag(with_flags):
    given = ["program", "--config.a=1", "--config.b.c=b=c, d", "--grid.f=1,2", "--", "--config.g=3"]
    assert command.parse(given) == ["program", "--config.g=3"]
    assert flags.FLAGS["config.FIELD"].value == ["a=1", "b.c=b=c, d"]
    assert flags.FLAGS["grid.FIELD"].value == ["f=1,2"]


def test_a_tilde_in_a_flag_or_an_argument_is_the_home_folder(tmp_path):
    arguments = ["~/none", "--results=~/made/report", "--register=~/mine.py"]
    (tmp_path / "mine.py").write_text("raise ValueError('executed')\n")
    outcome = preloaded.tfbigbatch("report", *arguments, HOME=str(tmp_path))
    assert outcome.returncode == 1 and f"{tmp_path}/mine.py, line 1" in outcome.stderr, outcome.stderr
    outcome = preloaded.tfbigbatch("report", *arguments[:2], HOME=str(tmp_path))
    assert outcome.returncode == 1 and f"{tmp_path}/none" in outcome.stderr, outcome.stderr
    assert not os.path.exists("~")
