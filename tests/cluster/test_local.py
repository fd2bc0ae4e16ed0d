"""The launcher, with small programs in place of the trainer."""

import os
import signal
import subprocess
import sys
import time

import pytest

from tfbigbatch.cluster.local import launch

# Counts its starts in a file of its own; what worker 1 does at its first start is told by the argument.
WORKER = """
import json, os, signal, sys, time
task = json.loads(os.environ["TF_CONFIG"])
index, workers = task["task"]["index"], task["cluster"]["worker"]
folder, what = sys.argv[1:]
with open(f"{folder}/{index}", "a") as file:
    file.write("x")
first = open(f"{folder}/{index}").read() == "x"
print(f"worker {index} of {len(workers)}", flush=True)
if index == 1 and first:
    if what == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "hang":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(60)
    if what.isdigit():
        sys.exit(int(what))
if index == 0 and first and what in ("die", "hang"):
    time.sleep(0.3)
    sys.exit(75)
if what in ("wait", "1"):
    signal.signal(signal.SIGTERM, lambda *unused: sys.exit(42))
    print("waiting", flush=True)
    time.sleep(60)
"""


def run(tmp_path, what, workers=2, **limits):
    lines = []
    code = launch([sys.executable, "-c", WORKER, str(tmp_path), what], workers, say=lines.append, **limits)
    return code, lines, [(tmp_path / str(index)).read_text() for index in range(workers)]


def test_all_workers_know_all_and_end(tmp_path, capfd):
    code, lines, starts = run(tmp_path, "end", workers=3)
    assert (code, lines, starts) == (0, [], ["x"] * 3)
    out = capfd.readouterr().out
    assert "worker 0 of 3\n" in out and "[worker 1] worker 1 of 3\n" in out and "[worker 2] worker 2 of 3\n" in out


@pytest.mark.parametrize("what, said", [("die", "worker 1 was killed by SIGKILL"), ("hang", "killing worker 1")])
def test_a_lost_worker_starts_all_again(tmp_path, what, said):
    code, lines, starts = run(tmp_path, what, restarts=1, loss_grace=1.0)
    assert code == 0 and starts == ["xx", "xx"]
    assert any(said in line for line in lines) and "restarting all, 1 restart(s) left" in lines[-1]


def test_a_worker_that_fails_by_itself_stops_the_others_and_is_not_started_again(tmp_path):
    began = time.monotonic()
    code, lines, starts = run(tmp_path, "1", restarts=3, grace=30.0)
    assert code == 1 and starts == ["x", "x"] and time.monotonic() - began < 20
    assert lines == ["launcher: worker 1 ended with exit code 1."]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_goes_on_to_all_workers(tmp_path, number):
    launcher = subprocess.Popen(
        [sys.executable, "-m", "tfbigbatch", "launch-local", "--workers=2", "--restarts=3", "--"]
        + [sys.executable, "-c", WORKER, str(tmp_path), "wait"],
        env={**os.environ, "PYTHONPATH": os.getcwd()},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    seen = ""
    while seen.count("waiting") < 2:
        line = launcher.stdout.readline()
        assert line, seen
        seen += line
    launcher.send_signal(number)
    out, _ = launcher.communicate(timeout=30)
    assert launcher.returncode == 42, seen + out
    assert [(tmp_path / str(index)).read_text() for index in (0, 1)] == ["x", "x"]


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel of Linux ends them")
def test_workers_end_with_a_launcher_that_is_killed(tmp_path):
    code = "import os, sys, time; print(os.getpid(), flush=True); time.sleep(60)"
    launcher = subprocess.Popen(
        [sys.executable, "-m", "tfbigbatch", "launch-local", "--workers=2", "--", sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.getcwd()},
        stdout=subprocess.PIPE,
        text=True,
    )
    workers = [int(launcher.stdout.readline().rpartition(" ")[2]) for _ in range(2)]
    launcher.kill()
    launcher.wait()
    wait_for_end(workers)


def wait_for_end(pids):
    until = time.monotonic() + 10
    while any(map(is_running, pids)):
        assert time.monotonic() < until
        time.sleep(0.05)


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_killing_a_worker_kills_what_it_started(tmp_path):
    # As a script that starts the trainer: SIGTERM ends neither.
    code = (
        "import signal, subprocess, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"open({str(tmp_path / 'child')!r}, 'w').write(str(child.pid)); child.wait()"
    )
    lines = []
    there = f"os.path.exists({str(tmp_path / 'child')!r}) and open({str(tmp_path / 'child')!r}).read()"
    fails = f"import os, sys, time\nwhile not ({there}): time.sleep(0.1)\nsys.exit(1)"
    choose = f"import json, os\nexec({code!r} if json.loads(os.environ['TF_CONFIG'])['task']['index'] else {fails!r})"
    assert launch([sys.executable, "-c", choose], 2, grace=0.5, say=lines.append) == 1
    assert "killing worker 1" in lines[-1]
    wait_for_end([int((tmp_path / "child").read_text())])
