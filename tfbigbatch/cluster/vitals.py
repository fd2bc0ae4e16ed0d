"""How much memory and how many files a process holds, watched over its life. Linux's /proc."""

import dataclasses
import os
import time


@dataclasses.dataclass(frozen=True)
class Sample:
    """One look at a process.

    Attributes:
      seconds: since its first look.
      memory: resident, in bytes.
      files: that it has open.
    """

    seconds: float
    memory: int
    files: int


class Vitals:
    """The looks at one process.

    Args:
      pid: of the process.
    """

    def __init__(self, pid):
        self._pid = pid
        self._began = time.monotonic()
        self.samples = []

    def look(self):
        """Adds a Sample; none where the process has ended."""
        try:
            with open(f"/proc/{self._pid}/statm") as file:
                pages = int(file.read().split()[1])
            files = len(os.listdir(f"/proc/{self._pid}/fd"))
        except (OSError, IndexError):
            return
        memory = pages * os.sysconf("SC_PAGE_SIZE")
        # Of a process that has ended and is not waited for yet, nothing is left.
        if memory:
            self.samples.append(Sample(time.monotonic() - self._began, memory, files))

    def slopes(self, after=0.0):
        """(bytes, files) that came in a second, by least squares over the looks after so many seconds; or None.

        None where fewer than three looks came after them.
        """
        late = [sample for sample in self.samples if sample.seconds >= after]
        if len(late) < 3:
            return None
        seconds = [sample.seconds for sample in late]
        return tuple(slope(seconds, [getattr(sample, name) for sample in late]) for name in ("memory", "files"))


def slope(x, y):
    """The slope of the line of least squares through points; 0.0 where all x are the same."""
    middle, height = sum(x) / len(x), sum(y) / len(y)
    spread = sum((one - middle) ** 2 for one in x)
    return sum((one - middle) * (other - height) for one, other in zip(x, y)) / spread if spread else 0.0
