"""Folders of snapshots that are being written."""

import os

from tfbigbatch.callbacks.snapshots import Snapshots


def test_a_start_removes_what_a_killed_process_left_and_keeps_its_own(tmp_path):
    (tmp_path / ".part-step-0000000004").mkdir()
    snapshots = Snapshots(str(tmp_path))
    own = snapshots.folder_for_parts("iterators")
    snapshots.make_directory()
    assert os.listdir(tmp_path) == [os.path.basename(own)]
