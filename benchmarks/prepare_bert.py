"""Times the preparation of BERT's pretraining data beside tf-models-official's create_pretraining_data.

    python benchmarks/prepare_bert.py --source=TEXT --vocab_file=vocab.txt \
      --results=results/throughput/prepare_bert.json

Both get the same text, a sentence a line, and go through it --dupe_factor times. The baselines take turns, in
fresh processes; the clock starts after the imports and stops when the files are written. `all_cores` gives each
core a process: ours by --processes, tf-models-official's one for each of as many parts of the text. Figures are
sequences a second, and a second of processor time, which a busy machine changes less: medians of the turns, and
in brackets how many times tf-models-official's.
"""

import functools
import multiprocessing
import os
import queue
import statistics
import tempfile
import time

from absl import flags

from tfbigbatch.utils import command
from tfbigbatch.utils.processes import cores as available_cores


def _define_flags():
    """Not at the import: a fresh process imports this file too, and tf-models-official's has flags of these names."""
    flags.DEFINE_string("source", None, "The text, in any layout of tools/prepare_bert.py.", required=True)
    flags.DEFINE_string("vocab_file", None, "The WordPiece vocabulary.", required=True)
    flags.DEFINE_integer("max_seq_length", 128, "Tokens of a sequence.", lower_bound=8)
    flags.DEFINE_integer("max_predictions_per_seq", 20, "Masked tokens of a sequence at most.", lower_bound=1)
    flags.DEFINE_integer("dupe_factor", 5, "How many times to go through the text.", lower_bound=1)
    flags.DEFINE_integer("turns", 3, "Turns of each baseline.", lower_bound=1)
    flags.DEFINE_string("results", None, "Also write the figures to this JSON file.")


def write_parts(source, folder, parts):
    """Writes a text as plain ones, a sentence a line: all of it, and the same in parts; gives their paths."""
    from tfbigbatch.data.bert.prepare import corpus

    _, paths, _ = corpus.find(source)
    texts = corpus.documents({path: corpus.scan(path, lambda: None) for path in paths}).texts()
    documents = ["\n".join(filter(str.strip, layout.sentences(text, True))) for text, layout, _ in texts]
    written = []
    for name, chosen in [("all", documents), *((str(n), documents[n::parts]) for n in range(parts))]:
        written.append(os.path.join(folder, f"{name}.txt"))
        with open(written[-1], "w", encoding="utf-8") as file:
            file.write("\n\n".join(chosen) + "\n")
    return written[0], written[1:]


def tf_models_official(text, output, options):
    """Its tokens, instances and records of a text; the number of sequences."""
    import random

    import tensorflow as tf
    from official.nlp.data import create_pretraining_data as reference
    from official.nlp.tools import tokenization

    yield "ready"
    tokenizer = tokenization.FullTokenizer(vocab_file=options["vocab_file"], do_lower_case=True)
    instances = reference.create_training_instances(
        [text],
        tokenizer,
        reference.get_processor_text_fn(False, True),
        options["max_seq_length"],
        options["dupe_factor"],
        0.1,
        0.15,
        options["max_predictions_per_seq"],
        random.Random(0),
    )
    os.makedirs(output)
    reference.write_instance_to_example_files(
        instances,
        tokenizer,
        options["max_seq_length"],
        options["max_predictions_per_seq"],
        [tf.io.gfile.join(output, "train")],
        False,
        False,
    )
    yield len(instances)


def ours(masking, processes, text, output, options):
    """The project's, with masks for good or without."""
    from tfbigbatch.data.bert.prepare import prepare
    from tfbigbatch.data.bert.prepare.options import Options

    yield "ready"
    names = ("max_seq_length", "max_predictions_per_seq", "dupe_factor")
    content, _ = prepare.prepare(
        text,
        output,
        Options(
            masking=masking,
            **{name: options[name] for name in names},
            vocab_file=options["vocab_file"],
            validation_share=0.0,
            processes=processes,
            shards={"train": 2 * processes} if processes > 1 else {},
        ),
    )
    yield content["counts"]["train"]["sequences"]


def _child(baseline, text, output, options, barrier, results):
    work = baseline(text, output, options)
    next(work)
    barrier.wait()
    started, before = time.perf_counter(), sum(os.times()[:4])
    sequences = next(work)
    # With that of the children, which have ended.
    results.put((sequences, started, time.perf_counter(), sum(os.times()[:4]) - before))


def _result(results, children):
    """What a child gave; an error where one failed."""
    while True:
        try:
            return results.get(timeout=1)
        except queue.Empty:
            if any(child.exitcode for child in children):
                for child in children:
                    child.terminate()
                raise RuntimeError("a baseline failed; its traceback is above") from None


def turn(baseline, texts, options):
    """A baseline in a fresh process for each text, all at once: sequences, seconds, seconds of processor time."""
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(len(texts)), context.Queue()
    with tempfile.TemporaryDirectory() as folder:
        children = [
            context.Process(
                target=_child, args=(baseline, text, os.path.join(folder, str(n)), options, barrier, results)
            )
            for n, text in enumerate(texts)
        ]
        for child in children:
            child.start()
        found = [_result(results, children) for _ in children]
        for child in children:
            child.join()
    sequences, starts, ends, processor = zip(*found)
    return {"sequences": sum(sequences), "seconds": max(ends) - min(starts), "processor_seconds": sum(processor)}


def _main(unused):
    from tfbigbatch.runs.run_directory import versions
    from tfbigbatch.utils.files import write_json

    names = ("vocab_file", "max_seq_length", "max_predictions_per_seq", "dupe_factor", "turns")
    options, cores = {name: flags.FLAGS[name].value for name in names}, available_cores()
    with tempfile.TemporaryDirectory() as folder:
        text, parts = write_parts(flags.FLAGS.source, folder, cores)
        baselines = {}
        for label, processes, texts in (("one_process", 1, [text]), ("all_cores", cores, parts)):
            baselines[f"{label}/tf_models_official"] = tf_models_official, texts
            for masking in ("static_token", "dynamic"):
                baselines[f"{label}/tfbigbatch_{masking}"] = functools.partial(ours, masking, processes), [text]
        turns = {name: [] for name in baselines}
        for number in range(options["turns"]):
            for name, (baseline, texts) in baselines.items():
                turns[name].append(turn(baseline, texts, options))
                print(f"turn {number + 1}: {name} {turns[name][-1]}", flush=True)
        size = os.path.getsize(text)
    medians = {
        name: {
            "sequences_a_second": statistics.median(one["sequences"] / one["seconds"] for one in found),
            "sequences_a_processor_second": statistics.median(
                one["sequences"] / one["processor_seconds"] for one in found
            ),
        }
        for name, found in turns.items()
    }
    for name, median in medians.items():
        base = medians[f"{name.partition('/')[0]}/tf_models_official"]
        said = (f"{median[unit]:>9,.0f} {unit} ({median[unit] / base[unit]:.1f})" for unit in median)
        print(f"{name:34s} {', '.join(said)}")
    if flags.FLAGS.results:
        setting = {**options, "vocab_file": os.path.basename(options["vocab_file"]), "bytes": size, "cores": cores}
        setting["source"] = os.path.basename(flags.FLAGS.source)
        write_json(flags.FLAGS.results, {"setting": setting, "median": medians, "turns": turns, "versions": versions()})
        print(f"results      {flags.FLAGS.results}")


if __name__ == "__main__":
    _define_flags()
    command.execute(_main)
