"""Preemption notices of the cloud, polled by a thread during a run.

Google Cloud's machines, TPU VMs included, have them on their metadata server: instance/preempted for a spot machine,
instance/maintenance-event for one whose host will be stopped. Own code, since TensorFlow's
PreemptionCheckpointHandler reads only the second one, and without a timeout. Slurm and Kubernetes send signals
instead: see `training.stop`.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator

from tfbigbatch.errors import InputError
from tfbigbatch.utils import arguments

SOURCES = ("auto", "gce", "none")
# Answers that announce a stop; the other maintenance event is a live migration.
_PREEMPTING = {"instance/preempted": ("TRUE",), "instance/maintenance-event": ("TERMINATE_ON_HOST_MAINTENANCE",)}
# The variables with the server's address that TensorFlow and Google's own libraries read.
_ADDRESS_VARIABLES = ("GCE_METADATA_IP", "GCE_METADATA_HOST")
_ADDRESS = "metadata.google.internal"
_PRODUCT = "/sys/class/dmi/id/product_name"


class PreemptionNotice:
    """Polls for preemption notices.

    Args:
      source: 'gce'; 'none' for no polling; or 'auto', which is 'gce' on Google's machines only.
      every: seconds between two polls; a spot machine has 30 seconds after the notice.
      timeout: seconds to wait for an answer.

    Raises:
      ValueError: the source is unknown, or it is 'gce' and no metadata server answers.
    """

    def __init__(self, source: str = "auto", *, every: float = 1.0, timeout: float = 2.0) -> None:
        arguments.one_of("--preemption_notice", source, SOURCES)
        self._every, self._timeout = every, timeout
        self._address = None if source == "none" else _address() or (_ADDRESS if source == "gce" else None)
        if source == "gce" and self._request("instance/preempted") is None:
            raise InputError(
                f"--preemption_notice=gce: no metadata server answers at {self._address}. Expected a machine of "
                "Google Cloud; omit the flag elsewhere."
            )

    @contextlib.contextmanager
    def watching(self, callback: Callable[[str], object]) -> Iterator[None]:
        """A context in which a notice calls `callback` with the reason, once, in another thread."""
        if self._address is None:
            yield
            return
        ended = threading.Event()
        thread = threading.Thread(target=self._watch, args=(callback, ended), daemon=True, name="preemption notice")
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join(2 * self._timeout * len(_PREEMPTING))

    def _watch(self, callback: Callable[[str], object], ended: threading.Event) -> None:
        while not ended.is_set():
            for path, preempting in _PREEMPTING.items():
                answer = self._request(path)
                if answer in preempting:
                    callback(f"the metadata server says {path.rpartition('/')[2]}: {answer}")
                    return
            ended.wait(self._every)

    def _request(self, path: str) -> str | None:
        """The server's answer; None if there is none in time."""
        request = urllib.request.Request(
            f"http://{self._address}/computeMetadata/v1/{path}", headers={"Metadata-Flavor": "Google"}
        )
        # Without a proxy, which could not reach this address.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=self._timeout) as answer:
                return answer.read(200).decode("utf-8", "replace").strip()
        except (OSError, urllib.error.URLError, http.client.HTTPException, ValueError):
            return None


def _address() -> str | None:
    """The server's address on one of Google's machines, by environment and firmware; None elsewhere."""
    found = next((os.environ[name] for name in _ADDRESS_VARIABLES if os.environ.get(name)), None)
    if found is None:
        with contextlib.suppress(OSError), open(_PRODUCT, encoding="utf-8", errors="replace") as file:
            found = _ADDRESS if "Google" in file.read(100) else None
    return found
