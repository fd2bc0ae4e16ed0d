"""Notices of the platform that this machine is about to be taken away, read by a thread while a run goes on.

Google Cloud's machines, TPU VMs among them, learn of it from their metadata server: instance/preempted of a spot
machine, instance/maintenance-event of one that its host is going to stop. TensorFlow's PreemptionCheckpointHandler
reads the second one alone, and asks without a limit of time. Slurm and Kubernetes send signals: see
`training.callbacks.signals`.
"""

import contextlib
import http.client
import os
import threading
import urllib.error
import urllib.request

from tfbigbatch.errors import InputError, nearest

SOURCES = ("auto", "gce", "none")
# What tells that the machine will be gone; another maintenance event is that it moves and goes on.
_MEANS_THE_END = {"instance/preempted": ("TRUE",), "instance/maintenance-event": ("TERMINATE_ON_HOST_MAINTENANCE",)}
# TensorFlow's name for the server's address, and that of Google's own libraries.
_ADDRESS_VARIABLES = ("GCE_METADATA_IP", "GCE_METADATA_HOST")
_ADDRESS = "metadata.google.internal"
_PRODUCT = "/sys/class/dmi/id/product_name"


class PreemptionNotice:
    """Asks for notices.

    Args:
      source: 'gce'; 'none', for no notice; or 'auto', 'gce' on a machine that says that it is one of Google's.
      every: seconds between two looks; Google gives a spot machine 30 seconds.
      timeout: seconds for an answer, after which the next look follows.

    Raises:
      ValueError: the source is unknown; or it is 'gce', and no metadata server answers.
    """

    def __init__(self, source="auto", *, every=1.0, timeout=2.0):
        if source not in SOURCES:
            raise InputError(f"--preemption_notice={source} is unknown. {nearest(source, SOURCES)}")
        self._every, self._timeout = every, timeout
        self._watches = source == "gce" or (source == "auto" and _is_of_google())
        if source == "gce" and self._asked("instance/preempted") is None:
            raise InputError(
                f"--preemption_notice=gce: no metadata server answers at {_address()}. Expected a machine of Google's "
                "cloud; leave the flag out elsewhere."
            )

    @contextlib.contextmanager
    def watching(self, tell):
        """While it lasts, a notice calls `tell` with words for it, once, in another thread.

        Args:
          tell: function of a string.
        """
        if not self._watches:
            yield
            return
        ended = threading.Event()
        thread = threading.Thread(target=self._watch, args=(tell, ended), daemon=True, name="preemption notice")
        thread.start()
        try:
            yield
        finally:
            ended.set()
            # Each look has its limit.
            thread.join(2 * self._timeout * len(_MEANS_THE_END))

    def _watch(self, tell, ended):
        while not ended.is_set():
            for path, means_the_end in _MEANS_THE_END.items():
                answer = self._asked(path)
                if answer in means_the_end:
                    tell(f"the metadata server says {path.rpartition('/')[2]}: {answer}")
                    return
            ended.wait(self._every)

    def _asked(self, path):
        """The server's answer; None where there is none in time."""
        request = urllib.request.Request(
            f"http://{_address()}/computeMetadata/v1/{path}", headers={"Metadata-Flavor": "Google"}
        )
        # The server is of this machine: a proxy could not reach it.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=self._timeout) as answer:
                return answer.read(200).decode("utf-8", "replace").strip()
        except (OSError, urllib.error.URLError, http.client.HTTPException, ValueError):
            return None


def _address():
    return next((os.environ[name] for name in _ADDRESS_VARIABLES if os.environ.get(name)), _ADDRESS)


def _is_of_google():
    """Whether this is one of Google's machines, without asking the network."""
    if any(os.environ.get(name) for name in _ADDRESS_VARIABLES):
        return True
    try:
        with open(_PRODUCT, encoding="utf-8", errors="replace") as file:
            return "Google" in file.read(100)
    except OSError:
        return False
