"""Folders of snapshots that are being written."""

import os
import subprocess
import sys

from tfbigbatch.callbacks.snapshots import Snapshots


def test_one_training_writes_and_one_that_an_error_ended_is_in_nobodys_way(tmp_path, monkeypatch):
    monkeypatch.setattr("tfbigbatch.utils.folder_lock.PATIENCE", 0.0)
    first, second = Snapshots(str(tmp_path)), Snapshots(str(tmp_path))
    first.make_directory()
    second.make_directory()
    first.release()
    code = (
        "import sys; from tfbigbatch.callbacks.snapshots import Snapshots; from tfbigbatch.utils import folder_lock\n"
        "folder_lock.PATIENCE = 0.0; Snapshots(sys.argv[1]).make_directory()"
    )
    elsewhere = [sys.executable, "-c", code, str(tmp_path)]
    refused = subprocess.run(elsewhere, capture_output=True, text=True)
    assert f"ExactResume: another training writes to {tmp_path}: process {os.getpid()} on" in refused.stderr
    second.release()
    subprocess.run(elsewhere, check=True)
