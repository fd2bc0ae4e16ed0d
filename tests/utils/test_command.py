"""Fields of a config among the flags of a command line."""

import os

import pytest
from absl import flags

from tests.helpers import preloaded
from tfbigbatch.utils import command


@pytest.fixture
def with_flags():
    missing = [name for name in ("override", "sweep") if name not in flags.FLAGS]
    for name in missing:
        flags.DEFINE_multi_string(name, [], "")
    yield
    flags.FLAGS.remove_flag_values(missing)


def test_fields_become_one_flag(with_flags):
    given = "program --config=x --config.a=1 --config.b.c 2 --noconfig.d --config.e --sweep.f=1,2 -- --config.g=3"
    assert command.with_fields(given.split()) == [
        "program",
        "--config=x",
        "--override=config.a=1",
        "--override=config.b.c=2",
        "--override=config.d=false",
        "--override=config.e=true",
        "--sweep=f=1,2",
        "--",
        "--config.g=3",
    ]
    assert command.with_fields(["--config.a=b=c, d"]) == ["--override=config.a=b=c, d"]


def test_a_tilde_in_a_flag_or_an_argument_is_the_home_folder(tmp_path):
    arguments = ["~/none", "--results=~/made/report", "--register=~/mine.py"]
    (tmp_path / "mine.py").write_text("raise ValueError('executed')\n")
    outcome = preloaded.tfbigbatch("report", *arguments, HOME=str(tmp_path))
    assert outcome.returncode == 1 and f"{tmp_path}/mine.py, line 1" in outcome.stderr, outcome.stderr
    outcome = preloaded.tfbigbatch("report", *arguments[:2], HOME=str(tmp_path))
    assert outcome.returncode == 1 and f"{tmp_path}/none" in outcome.stderr, outcome.stderr
    assert not os.path.exists("~")


def test_a_command_without_experiments_knows_no_fields():
    if "override" not in flags.FLAGS:
        assert command.with_fields(["--config.a=1"]) == ["--config.a=1"]
