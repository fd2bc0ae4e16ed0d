import threading
import time

from tfbigbatch.cluster.watchdog import Watchdog


class Ends:
    """Takes the exit code in place of the process's end."""

    def __init__(self):
        self.codes, self.event = [], threading.Event()

    def __call__(self, code):
        self.codes.append(code)
        self.event.set()


def test_where_nothing_happens_the_process_ends(capsys):
    ends = Ends()
    with Watchdog(0.2, ends) as watchdog:
        watchdog.alive("update 7")
        assert ends.event.wait(10)
    assert ends.codes == [75]
    assert "nothing has happened for 0.2 seconds after update 7" in capsys.readouterr().err


def test_a_run_that_goes_on_or_has_ended_is_left_alone():
    ends = Ends()
    with Watchdog(1.0, ends) as watchdog:
        for step in range(12):
            watchdog.alive(f"update {step}")
            time.sleep(0.1)
    time.sleep(1.2)
    with Watchdog(0, ends):
        time.sleep(0.1)
    assert ends.codes == []
