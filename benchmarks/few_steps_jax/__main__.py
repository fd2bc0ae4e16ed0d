"""The benchmark of few steps on a GPU: Keras 3 on JAX, eight runs at a time, a table in minutes that takes a CPU days.

    python benchmarks/few_steps_jax --data_dir=data --results=runs.jsonl [--tasks=ptb,bert] [--only=Muon@640]
    python benchmarks/few_steps_jax --results=runs.jsonl --tables=FOLDER/jax

It needs JAX, Keras 3, ml_collections, google_crc32c, sentencepiece and sacrebleu, and no TensorFlow. Rows, optimizers,
durations, schedules and batch ramps are those of a study file: of experiments/few_steps (its README.md has them, and
the commands of the data), or with --study of another one of these tasks, as results/ramp/moments_study.py. The networks
are written again in JAX. The runs of a row differ by learning rate and seed alone, and eight of them are one program,
so that the search can be wider:

1. Eight learning rates, each twice the one before, on validation data, seed 100. Where the best is at an end, eight
   beyond it, at most twice.
2. The best one with eight seeds, on the test data.

Each of these is a line of the file of results, which may hold several studies; the same command goes on after the last.
The second command writes FOLDER/jax_TASK.json and .md of one study from it.
"""

import os

from absl import flags

from tfbigbatch.errors import InputError
from tfbigbatch.utils import command

TASKS = ("ptb", "bert", "mnist_lstm", "mnist", "multi30k")

flags.DEFINE_string("study", "few_steps/study", "A study file, or its name; of the rows of the tasks.")
flags.DEFINE_string("data_dir", None, "The folder of all data, as of `tfbigbatch study few_steps`.")
flags.DEFINE_list("tasks", list(TASKS), f"Of {', '.join(TASKS)}.")
flags.DEFINE_list("only", [], "METHOD, METHOD@BATCH or @BATCH; all rows without it.")
flags.DEFINE_string("results", None, "The file of results, JSON lines.", required=True)
flags.DEFINE_integer("compilations", 6, "Programs that are compiled at a time.", lower_bound=1)
flags.DEFINE_integer("lanes", 8, "Runs at a time: learning rates of a search, and seeds.", lower_bound=2)
flags.DEFINE_float("share", 1.0, "Of the steps that are taken: to try it.", lower_bound=0.0, upper_bound=1.0)
flags.DEFINE_string("tables", None, "Write tables from the file of results, to PATH_TASK.json and .md; run nothing.")


def _main(unused):
    options = flags.FLAGS
    if unknown := set(options.tasks) - set(TASKS):
        raise InputError(f"--tasks={','.join(sorted(unknown))}: expected some of {', '.join(TASKS)}.")
    if options.tables:
        import tables

        return tables.write(options.study, options.results, options.tables)
    if not options.data_dir:
        raise InputError("--data_dir is missing: the folder that holds those of the tasks.")
    os.environ["KERAS_BACKEND"] = "jax"
    # Without them compiling takes longer than the runs: each product would be timed in many ways first.
    os.environ.setdefault("XLA_FLAGS", "--xla_gpu_autotune_level=0 --xla_gpu_enable_triton_gemm=false")
    import rows

    rows.run(
        options.study,
        options.data_dir,
        options.tasks,
        options.only,
        options.results,
        lanes=options.lanes,
        share=options.share,
        compilations=options.compilations,
    )


if __name__ == "__main__":
    command.execute(_main)
