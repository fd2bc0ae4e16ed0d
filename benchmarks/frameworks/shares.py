"""Where the seconds of our training step go on one core, by kind of operation: TensorFlow's profile of its kernels.

python benchmarks/frameworks/shares.py --networks=mnist_lstm_128,bert_wikitext_64
"""

import argparse
import collections
import glob
import os
import sys
import tempfile

FOLDER = os.path.dirname(os.path.abspath(__file__))
# The first kind that has a part of the operation's type; what none has is element-wise arithmetic.
KINDS = {
    "matrix products": ("MatMul", "Einsum", "Conv"),
    "softmax": ("Softmax",),
    "sums and means": ("AddN", "BiasAddGrad", "Sum", "Mean"),
    "copies": ("Split", "Concat", "Transpose", "Stack", "Pack", "Slice", "Gather", "Scatter", "Tile", "TensorList")
    + ("Reverse", "Cast", "ZerosLike", "Reshape"),
    "variables": ("Variable",),
    "none": ("Dataset", "Prefetch", "Root", "Run", "DoCompute", "_step", "train_function", "Recv", "Send"),
}


def kind(operation):
    """The kind of an operation's type."""
    return next((name for name, parts in KINDS.items() if any(part in operation for part in parts)), "element-wise")


def shares(folder):
    """{kind: share of the operations' seconds} of the profile in a folder."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    (path,) = glob.glob(os.path.join(glob.escape(folder), "plugins/profile/*/*.xplane.pb"))
    space = xplane_pb2.XSpace()
    with open(path, "rb") as file:
        space.ParseFromString(file.read())
    seconds = collections.Counter()
    for plane in space.planes:
        for line in plane.lines:
            for event in line.events:
                # NAME:TYPE is an operation; the host's other events are of Python and of the runtime.
                name, separator, operation = plane.event_metadata[event.metadata_id].name.rpartition(":")
                if separator and not name.endswith(":") and "Executor" not in name:
                    seconds[kind(operation)] += event.duration_ps
    del seconds["none"]
    whole = sum(seconds.values())
    return {name: value / whole for name, value in seconds.items()}


def _main():
    sys.path[:0] = [os.path.dirname(os.path.dirname(FOLDER))]
    import networks

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", required=True, help=", ".join(networks.NAMES))
    names = parser.parse_args().networks.split(",")
    if unknown := [name for name in names if name not in networks.NETWORKS]:
        parser.error(f"--networks={','.join(unknown)}: expected some of {', '.join(networks.NAMES)}")
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
    os.environ["TF_NUM_INTRAOP_THREADS"] = os.environ["TF_NUM_INTEROP_THREADS"] = "1"
    import tensorflow as tf
    import with_tfbigbatch

    columns = [*(name for name in KINDS if name != "none"), "element-wise"]
    print(f"| network | {' | '.join(columns)} |\n|---{'|---:' * len(columns)}|")
    for name in names:
        network = networks.NETWORKS[name]
        step = with_tfbigbatch.Step(network)
        step.run(3 * network.inner_steps)
        with tempfile.TemporaryDirectory() as folder:
            tf.profiler.experimental.start(folder)
            step.run(2 * network.inner_steps)
            tf.profiler.experimental.stop()
            found = shares(folder)
        print(f"| {name} | {' | '.join(f'{found.get(column, 0.0):.0%}' for column in columns)} |", flush=True)


if __name__ == "__main__":
    _main()
