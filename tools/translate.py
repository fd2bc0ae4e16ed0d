"""Translates a text by the network of a run.

    python tools/translate.py --model_dir=runs/multi30k --input=test.en --output=test.de

The text has a sentence a line, and so has the translation: an empty line stays empty. It is detokenised text, with
single spaces. The run directory is all that is needed: the newest checkpoint, or that of --step, and the vocabulary
that the run keeps. Search and penalties are those of the run's evaluations where no flag says otherwise;
--beam_size=1 is greedy search. The output is written whole or not at all.
"""

import dataclasses
import time

from absl import flags

from tfbigbatch.cli import translation
from tfbigbatch.utils import command

flags.DEFINE_string("model_dir", None, "The run directory.", required=True)
flags.DEFINE_string("input", None, "The text; UTF-8, or packed as .gz.", required=True)
flags.DEFINE_string("output", None, "Where the translation goes.", required=True)
flags.DEFINE_integer("step", None, "The update of the checkpoint; left out, the newest.")
flags.DEFINE_string("vocabulary", None, "The sentencepiece model of a run whose directory keeps none.")
flags.DEFINE_integer("batch_size", 64, "Sentences at once.")
flags.DEFINE_integer("beam_size", None, "Hypotheses of a sentence; 1 is greedy search.")
flags.DEFINE_float("length_penalty", None, "The exponent of GNMT's length normalisation; 0 for none.")
flags.DEFINE_float("coverage_penalty", None, "The factor of GNMT's coverage penalty; 0 for none.")
flags.DEFINE_integer("max_decoded", None, "Pieces of a translation at most.")
flags.DEFINE_integer("max_length", 150, "Pieces of a sentence at most; a longer one is an error.")
flags.DEFINE_bool("cut", False, "Or loses its end.")
flags.DEFINE_bool("jit_compile", False, "Compile the search by XLA; worth its time for long texts.")


def _main(unused):
    flag = flags.FLAGS
    options = translation.Options(
        **{field.name: flag[field.name].value for field in dataclasses.fields(translation.Options)}
    )
    # After the flags are known to be right: it imports TensorFlow.
    from tfbigbatch.runs import load

    trained = load.load(flag.model_dir, step=flag.step, vocabulary=flag.vocabulary)
    print(f"checkpoint  step {trained.step:,} of {flag.model_dir}, {len(trained.vocabulary):,} pieces", flush=True)
    started = time.perf_counter()
    counts = translation.translate_file(
        trained, flag.input, flag.output, options, say=lambda line: print(line, flush=True)
    )
    seconds = time.perf_counter() - started
    print(
        f"translated  {counts.lines:,} lines ({counts.empty:,} empty, {counts.cut:,} cut) in {seconds:.1f} s, "
        f"{counts.lines / seconds:.1f} a second"
    )
    print(f"written     {flag.output}")


if __name__ == "__main__":
    command.execute(_main)
