"""What `import tfbigbatch` costs over TensorFlow's and Keras' own imports.

    python benchmarks/import_time.py

Each import is timed in a process of its own, the two in turn; the medians and their ratio are printed.
"""

import statistics
import subprocess
import sys

from absl import flags

from tfbigbatch.utils import command

flags.DEFINE_integer("pairs", 9, "Timed pairs, after one warm-up.", lower_bound=5)

_THEIRS = "import tensorflow, keras, tf_keras"
_OURS = f"{_THEIRS}; from tfbigbatch.optimizers import keras2, keras3"
_TIMED = "import time; start = time.perf_counter(); {}; print(time.perf_counter() - start)"


def _seconds(statement):
    out = subprocess.run([sys.executable, "-c", _TIMED.format(statement)], capture_output=True, text=True, check=True)
    return float(out.stdout.splitlines()[-1])


def _main(unused):
    pairs = [(_seconds(_THEIRS), _seconds(_OURS)) for _ in range(flags.FLAGS.pairs + 1)][1:]
    theirs, ours = (statistics.median(column) for column in zip(*pairs))
    ratio = statistics.median(our / their for their, our in pairs)
    print(f"{_THEIRS}: {theirs:.3f} s\nwith LARS and LAMB for both: {ours:.3f} s")
    print(f"ratio, median of {len(pairs)} pairs: {ratio:.3f}")


if __name__ == "__main__":
    command.execute(_main)
