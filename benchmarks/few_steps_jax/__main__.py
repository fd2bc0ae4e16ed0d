"""The benchmark of few steps on a GPU: Keras 3 on JAX, eight runs at a time, a table in minutes that takes a CPU days.

    python benchmarks/few_steps_jax --data_dir=data --results=runs.jsonl [--tasks=ptb,bert] [--only=Muon@640]
    python benchmarks/few_steps_jax --results=runs.jsonl --tables=FOLDER/jax

It needs JAX, Keras 3, ml_collections, google_crc32c, sentencepiece and sacrebleu, and no TensorFlow. Rows, optimizers,
durations, schedules and batch ramps are those of a sweep file: of experiments/few_steps (its README.md has them, and
the commands of the data), or with --sweep of another one of these tasks, as results/ramp/moments_sweep.py. The networks
are the package's own. The runs of a row differ by learning rate and seed alone, and eight of them are one program, so
that the search can be wider:

1. Eight learning rates, each twice the one before, on validation data, seed 100. Where the best is at an end, eight
   beyond it, at most twice.
2. The best one with eight seeds, on the test data.

Each of these is a line of the file of results, which may hold several sweeps; the same command goes on after the last.
The second command writes FOLDER/jax_TASK.json of one sweep from it.
"""

import os
import sys

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import harness

TASKS = ("ptb", "bert", "mnist_lstm", "mnist", "multi30k")


def main():
    """Runs the rows, or writes the tables."""
    parser = harness.parser(__doc__, "few_steps_jax")
    parser.add_argument("--sweep", default="few_steps/sweep", help="sweep file, or its name; of the rows of the tasks")
    parser.add_argument("--data_dir", help="folder of all data: experiments/few_steps/README.md")
    parser.add_argument("--tasks", type=harness.some_of(TASKS), default=TASKS, help="all by default")
    parser.add_argument("--only", default="", help="METHOD, METHOD@BATCH or @BATCH, with semicolons between")
    parser.add_argument("--results", required=True, help="file of results, JSON lines")
    parser.add_argument("--lanes", type=int, default=8, help="runs at a time: learning rates, and seeds (8)")
    parser.add_argument("--tables", help="write tables to PATH_TASK.json from the file of results; run nothing")
    given = parser.parse_args()
    if not given.tables and not given.data_dir:
        parser.error("--data_dir is missing: the folder that holds those of the tasks")
    os.environ["KERAS_BACKEND"] = "jax"
    # Without them compiling takes longer than the runs: each product would be timed in many ways first.
    os.environ.setdefault("XLA_FLAGS", "--xla_gpu_autotune_level=0 --xla_gpu_enable_triton_gemm=false")
    import rows

    if given.tables:
        rows.write_tables(given.sweep, given.results, given.tables)
    else:
        only = [each for each in given.only.split(";") if each]
        rows.run(given.sweep, given.data_dir, given.tasks, only, given.results, given.lanes)


if __name__ == "__main__":
    main()
