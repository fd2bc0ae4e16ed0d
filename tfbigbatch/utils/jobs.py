"""Jobs in processes of their own, several at once, each with its log."""

import contextlib
import dataclasses
import fcntl
import os
import pickle
import subprocess
import sys
import time

from tfbigbatch.errors import InputError, Preempted
from tfbigbatch.utils.files import writing_errors
from tfbigbatch.utils.signals import counting_signals

_POLL = 0.1  # seconds


@dataclasses.dataclass(frozen=True, eq=False)
class Job:
    """A call in a process of its own.

    Attributes:
      name: for messages.
      function: importable by its module and name.
      arguments: dictionary of keyword arguments that pickle.
      log: the file that its stdout and stderr are appended to.
    """

    name: str
    function: object
    arguments: dict
    log: str


def run_jobs(jobs, processes, ended):
    """Runs jobs, at most `processes` at once, each in a fresh process with its share of the cores.

    Ctrl-C or SIGTERM sends the running ones SIGTERM and waits for them; a second one kills them.

    Args:
      jobs: list of Job.
      processes: how many at once.
      ended: function of (job, exit code, text it logged), called in this process as each ends.

    Raises:
      Preempted: Ctrl-C or SIGTERM came.
    """
    waiting, running = list(jobs), []
    environment = _environment(processes)
    with counting_signals() as signals:
        try:
            while (waiting and not signals) or running:
                while waiting and not signals and len(running) < processes:
                    running.append(_Child(waiting.pop(0), environment))
                time.sleep(_POLL)
                if signals:
                    for child in running:
                        child.stop(at_once=len(signals) > 1)
                for child in [child for child in running if child.code() is not None]:
                    running.remove(child)
                    ended(child.job, child.code(), child.logged())
        finally:
            # Left with children only where something failed in this process.
            for child in running:
                child.stop()
            for child in running:
                child.wait()
    if signals:
        raise Preempted("stopped on request; the same command goes on from there.")


class _Child:
    """A job's process."""

    def __init__(self, job, environment):
        self.job = job
        self._stopped = False
        with writing_errors(job.log):
            os.makedirs(os.path.dirname(job.log), exist_ok=True)
            log = open(job.log, "ab")
        with log:
            self._start = log.tell()
            # The child inherits the lock with the file and holds it until it ends, whatever happens to us.
            try:
                fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(
                    f"{job.name}: another process is at this run and writes {job.log}. Wait until it has ended, or "
                    "end it; then the same command goes on."
                ) from None
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tfbigbatch.utils.job_process"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=environment,
                # The terminal's Ctrl-C comes to us alone, and goes on as one SIGTERM: a second signal
                # would interrupt the saving.
                start_new_session=True,
            )
        with contextlib.suppress(BrokenPipeError):  # It ended already; its log says why.
            self._process.stdin.write(pickle.dumps((job.function, job.arguments)))
            self._process.stdin.flush()

    def code(self):
        """The exit code, or None while it runs."""
        return self._process.poll()

    def stop(self, at_once=False):
        """SIGTERM, once, however often it is called; or SIGKILL."""
        if at_once:
            self._process.kill()
        elif not self._stopped:
            self._process.terminate()
        self._stopped = True

    def wait(self):
        self._process.wait()

    def logged(self):
        """What this process, not one before it, wrote to the log."""
        with open(self.job.log, "rb") as log:
            log.seek(self._start)
            return log.read().decode(errors="replace")


def _environment(processes):
    """The children's: this process's, its import path, and a share of the cores unless something else is set."""
    threads = str(max(1, cores() // processes))
    return {
        "TF_NUM_INTRAOP_THREADS": threads,
        "TF_NUM_INTEROP_THREADS": threads,
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),
    }


def cores():
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
