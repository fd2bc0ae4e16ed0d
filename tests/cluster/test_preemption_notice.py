import threading
import time
import urllib.request

import pytest

from tests.helpers.fake_metadata_server import serving
from tfbigbatch.cluster import preemption_notice
from tfbigbatch.cluster.preemption_notice import PreemptionNotice

QUIET = {"instance/preempted": "FALSE", "instance/maintenance-event": "NONE"}


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch):
    """Whatever machine the tests run on, it is none of Google's."""
    monkeypatch.setattr(preemption_notice, "_PRODUCT", "/nowhere")
    for name in ("GCE_METADATA_IP", "GCE_METADATA_HOST"):
        monkeypatch.delenv(name, raising=False)
    # The server is never asked through a proxy.
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")


@pytest.mark.parametrize(
    "path, answer, said",
    [
        ("instance/preempted", "TRUE", "preempted: TRUE"),
        ("instance/maintenance-event", "TERMINATE_ON_HOST_MAINTENANCE", "maintenance-event: TERMINATE"),
    ],
)
@pytest.mark.parametrize("variable", ["GCE_METADATA_IP", "GCE_METADATA_HOST"])
def test_a_notice_is_told_once_and_soon(monkeypatch, path, answer, said, variable):
    answers, told, came = dict(QUIET), [], threading.Event()
    with serving(answers) as (address, asked):
        monkeypatch.setenv(variable, address)
        with PreemptionNotice("auto", every=0.02).watching(lambda words: (told.append(words), came.set())):
            while len(asked) < 4:
                time.sleep(0.01)
            assert not told
            answers[path] = answer
            assert came.wait(10)
            time.sleep(0.1)
    assert len(told) == 1 and said in told[0]


def test_a_machine_that_moves_goes_on(monkeypatch):
    answers, told = {**QUIET, "instance/maintenance-event": "MIGRATE_ON_HOST_MAINTENANCE"}, []
    with serving(answers) as (address, asked):
        monkeypatch.setenv("GCE_METADATA_HOST", address)
        with PreemptionNotice("gce", every=0.01).watching(told.append):
            while len(asked) < 8:
                time.sleep(0.01)
    assert not told


def test_a_server_that_is_slow_or_gone_holds_nothing_up(monkeypatch):
    with serving(dict(QUIET), delay=30) as (address, asked):
        monkeypatch.setenv("GCE_METADATA_HOST", address)
        began = time.monotonic()
        with PreemptionNotice("auto", every=0.01, timeout=0.1).watching(pytest.fail):
            while len(asked) < 3:
                time.sleep(0.01)
        assert time.monotonic() - began < 10
    monkeypatch.setenv("GCE_METADATA_HOST", "127.0.0.1:9")
    with PreemptionNotice("auto", every=0.01, timeout=0.1).watching(pytest.fail):
        time.sleep(0.05)


def test_elsewhere_no_server_is_asked(monkeypatch):
    monkeypatch.setattr(urllib.request, "build_opener", lambda *handlers: pytest.fail("asked"))
    for source in ("auto", "none"):
        with PreemptionNotice(source).watching(pytest.fail):
            assert "preemption notice" not in {thread.name for thread in threading.enumerate()}


def test_what_cannot_be_is_refused(monkeypatch):
    with pytest.raises(ValueError, match="--preemption_notice='gcp' is unknown. Did you mean 'gce'"):
        PreemptionNotice("gcp")
    monkeypatch.setenv("GCE_METADATA_HOST", "127.0.0.1:9")
    with pytest.raises(ValueError, match="no metadata server answers at 127.0.0.1:9"):
        PreemptionNotice("gce", timeout=0.5)
