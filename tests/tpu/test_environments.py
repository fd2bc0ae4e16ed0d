import os
import platform
import subprocess
import sys

import pytest

from tfbigbatch.tpu import environments


def test_the_commands_make_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    folder = str(tmp_path)
    with pytest.raises(ValueError, match="(?s)libtpu, Google's proprietary.*-m venv.*pip install.*tensorflow-tpu"):
        environments.ensure(folder)
    commands = environments.commands(folder)
    assert len(commands) == 6 and "libtpu==" in commands[4]
    # Without the packages, which are Google's and large.
    for command in (each for each in commands if "pip install" not in each):
        subprocess.run(command, shell=True, check=True)
    environments.ensure(folder)
    script = "import sys; print(sys.path)"
    done = subprocess.run(
        [environments.python(environments.LOWER, folder), "-c", script], capture_output=True, text=True
    )
    assert os.path.dirname(os.path.dirname(pytest.__file__)) in done.stdout


def test_another_platform_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(ValueError, match="for Python 3.11 and 3.12 on Linux on x86-64"):
        environments.ensure(str(tmp_path))
