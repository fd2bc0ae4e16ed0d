"""What the fuzzed cases share."""

import os

import pytest


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch):
    """The cases are of what files hold, not of power cuts: hundreds of them would wait for the disk for minutes."""
    monkeypatch.setattr(os, "fsync", lambda file: None)
