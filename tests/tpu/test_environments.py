import os
import platform
import subprocess
import sys

import pytest

from tfbigbatch.tpu import environments


@pytest.fixture(autouse=True)
def on_linux(monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(environments, "PINS", {"lower": ["lower==1"], "compile": ["compile==1"]})
    monkeypatch.delenv(environments.ACCEPT, raising=False)


def pip(monkeypatch, returncode=0):
    """Replaces the commands; gives those that were run."""
    run = []

    def fake(command, **options):
        run.append(command)
        if "venv" in command:
            version = "python{}.{}".format(*sys.version_info[:2])
            os.makedirs(os.path.join(command[-1], "lib", version, "site-packages"))
        failed = returncode if "pip" in command else 0
        return subprocess.CompletedProcess(command, failed, "", "Could not find a version\nNo matching distribution")

    monkeypatch.setattr(subprocess, "run", fake)
    return run


def test_nothing_is_installed_without_consent(tmp_path, monkeypatch):
    run = pip(monkeypatch)
    with pytest.raises(ValueError, match="(?s)libtpu, Google's proprietary.*--accept_libtpu_license.*pip install"):
        environments.ensure(str(tmp_path))
    assert run == []


def test_consent_installs_both_once(tmp_path, monkeypatch):
    run, said = pip(monkeypatch), []
    monkeypatch.setenv(environments.ACCEPT, "1")
    environments.ensure(str(tmp_path), say=said.append)
    assert [command[-1] for command in run if "pip" in command] == ["lower==1", "compile==1"] and len(said) == 2
    [borrowed] = tmp_path.glob("lower/lib/python*/site-packages/borrowed.pth")
    assert "site-packages" in borrowed.read_text()
    environments.ensure(str(tmp_path), say=said.append)
    assert len(said) == 2
    monkeypatch.setitem(environments.PINS, "lower", ["lower==2"])
    assert not environments.is_whole("lower", str(tmp_path))


def test_a_failed_installation_says_which_command(tmp_path, monkeypatch):
    pip(monkeypatch, returncode=1)
    with pytest.raises(ValueError, match="(?s)pip install.*lower==1 failed.*No matching distribution.*package index"):
        environments.ensure(str(tmp_path), accepted=True, say=lambda line: None)
    assert not environments.is_whole("lower", str(tmp_path))
