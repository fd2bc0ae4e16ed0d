"""What reads files of others, or files that a crash may have torn, on damaged files: a result, or one clear error.

READERS is a table of folders of whole files and their readers. Each case damages one file, by the seed of its number. A
few cases of the quick ones are in the default run; all, and any number of them:

    FUZZ_CASES=100000 python -m pytest -m "slow or not slow" tests/fuzz
"""

import array
import collections
import dataclasses
import fnmatch
import gzip
import json
import os
import random
import shutil
import signal
from collections.abc import Callable

import keras
import numpy as np
import pytest

import tfbigbatch
from tests.data.finetuning import test_race
from tests.fuzz import mutations
from tests.helpers import made_runs
from tests.helpers.datasets import bert_sets, image_sets, made_images, made_squad, made_vocabulary, translation_sets
from tests.helpers.networks_in_numpy import made_arrays
from tests.models import test_bert_checkpoints as bert_files
from tfbigbatch import sweeps, train
from tfbigbatch.callbacks import snapshots
from tfbigbatch.config import load_config, new_config, override
from tfbigbatch.config.overrides import flat
from tfbigbatch.config.recipe import check_fields
from tfbigbatch.data.bert import manifest as bert_manifest
from tfbigbatch.data.bert.prepare import existing as existing_bert
from tfbigbatch.data.bert.prepare import prepare as prepare_bert
from tfbigbatch.data.bert.prepare.prepare import Options as BertOptions
from tfbigbatch.data.finetuning import glue, race, squad, text_pairs
from tfbigbatch.data.images import manifest as image_manifest
from tfbigbatch.data.images.dataset import ImageRecords
from tfbigbatch.data.images.prepare import check, existing
from tfbigbatch.data.images.prepare import prepare as prepare_images
from tfbigbatch.data.language_model import corpus
from tfbigbatch.data.records import tfrecord
from tfbigbatch.data.translation import manifest as translation_manifest
from tfbigbatch.data.translation import prepare as prepare_translation
from tfbigbatch.data.translation.dataset import TranslationRecords
from tfbigbatch.data.translation.prepare import Options as TranslationOptions
from tfbigbatch.errors import InputError
from tfbigbatch.models import bert_checkpoints
from tfbigbatch.optimizers import keras3
from tfbigbatch.reports import html
from tfbigbatch.reports.report import Report
from tfbigbatch.run_directory import initial_weights, metrics_log, stored_run
from tfbigbatch.run_directory.directory import RunDirectory
from tfbigbatch.sweeps.results_cache import ResultsCache
from tfbigbatch.training.checkpoints import Checkpoints
from tfbigbatch.training.log_rows import MetricsLog
from tfbigbatch.training.phases import phases_of
from tfbigbatch.training.rollbacks import Rollbacks

EXPERIMENTS = os.path.join(os.path.dirname(__file__), "..", "..", "experiments", "digits")
# Seconds of the processor for a case, many times what the longest takes; and of the clock, for one that only waits.
WORK, WAIT = 20.0, 300.0


# ---- Runs ------------------------------------------------------------------------------------------


def make_run(folder):
    """A run directory that measured, was extended and rolled back, as reports and a resumed run read it."""
    noise = {f"noise_scale/{name}": 40.0 for name in ("critical_batch_size", "low", "high")}
    scalars = {"loss": 2.0, "learning_rate": 0.1, "trust_ratio/dense/kernel": 0.5, **noise}
    config = new_config("digits_lstm").to_dict()
    made_runs.write(folder, config, 0.9, train=dict.fromkeys((5, 10, 20), scalars))
    status = {"best": {"metric": "accuracy", "value": 0.9, "step": 20}}
    started = {"data_dir": "/data", "mixed_precision": "float32", "init_from": {"path": "/one", "checkpoint": "/two"}}
    started["extensions"] = [{"duration": "10 steps", "step": 10, "total_steps": 10}]
    for name, added in (("status.json", status), ("config.json", started)):
        write_json(folder / name, {**json.loads((folder / name).read_text()), **added})


def read_run(folder, choices):
    report = Report.of_folders([str(folder)])
    assert report.table().markdown()
    report.write_results(str(folder / "results.json"))
    html.runs_table(report)


def resume_run(folder, choices):
    directory = RunDirectory(str(folder))
    status = directory.status()
    stored_run.config_of(str(folder))
    assert isinstance(stored_run.data_dir_of(str(folder)), str | None)
    MetricsLog(directory).resume(10)
    # Rows of whole lines stay, up to the step that is gone back to.
    assert all(row["step"] <= 10 for row in metrics_log.read_rows(directory.metrics))
    f"{status.get('step', 0):,} {status.get('seconds', 0.0) + 1.0}"


def make_rollbacks(folder):
    write_json(folder / "rollbacks.json", [{"step": 8, "back_to": 4, "rate_factor": 0.5, "reason": "loss became nan"}])


def read_rollbacks(folder, choices):
    found = Rollbacks(str(folder), new_config("digits_lstm"))
    assert found.skipped >= 0 and 0.0 < found.rate_factor <= 1.0 and found.lines() is not None


def make_results_cache(folder):
    made_runs.write(folder / "run", new_config("digits_lstm").to_dict(), 0.9)
    ResultsCache(str(folder / "ended.jsonl")).keep([str(folder / "run")])
    shutil.rmtree(folder / "run")


def read_results_cache(folder, choices):
    config = new_config("digits_lstm").to_dict()
    ResultsCache(str(folder / "ended.jsonl")).restore(str(folder / "restored"), config)


def compiled_network():
    layers = [keras.Input((3,)), keras.layers.Dense(4, name="hidden"), keras.layers.Dense(1, name="head")]
    network = keras.Sequential(layers)
    network.compile(keras3.LAMB(0.01), "mse")
    network.optimizer.build(network.trainable_variables)
    return network


def make_checkpoints(folder):
    """Two checkpoints, in which all weights are the step."""
    network = compiled_network()
    for step in (1, 2):
        network.set_weights([np.full_like(each, step) for each in network.get_weights()])
        network.optimizer.iterations.assign(step)
        Checkpoints(network, str(folder)).save(step)


def restore_newest(folder, choices):
    """Whatever happens to the newest, the weights are afterwards those of a save, to the last bit."""
    network = compiled_network()
    checkpoints = Checkpoints(network, str(folder))
    step = checkpoints.restore()
    assert [np.unique(each).tolist() for each in network.get_weights()] == [[step]] * 4
    assert step == 2 or checkpoints.set_aside or not (folder / "step-2.index").exists()


def init_from_checkpoint(folder, choices):
    """What is assigned is whole: the values of the save, or none at all."""
    network = compiled_network()
    network.set_weights([np.zeros_like(each) for each in network.get_weights()])
    try:
        initial_weights.load_into(network, str(folder / "step-2"))
    finally:
        assert [np.unique(each).tolist() for each in network.get_weights()] in ([[0.0]] * 4, [[2.0]] * 4)


def make_whole_run(folder):
    config = new_config("digits_lstm")
    config.model.hidden_units = 2
    config.duration = config.evaluate_every = "2 steps"
    train.run(config, model_dir=str(folder), use_fake_data=True)


def load_run(folder, choices):
    assert tfbigbatch.load_run(str(folder), choices.choice(("newest", 2))).network.count_params() > 0


def make_snapshots(folder):
    made = snapshots.Snapshots(str(folder))
    made.make_directory()
    for step in (1, 2):
        with made.writing(step, {"epoch": 0, "data": {"kind": "arrays"}}) as path:
            for name in ("state.index", "callbacks.npz"):
                with open(os.path.join(path, name), "wb") as file:
                    file.write(bytes([step]) * 200)
    made.note(done=3)


def read_snapshots(folder, choices):
    """The newest is one that was written, with the bytes that were written."""
    found = snapshots.Snapshots(str(folder))
    step = found.newest(lambda line: None)["step"]
    for name in ("state.index", "callbacks.npz"):
        assert (folder / f"step-{step:010d}" / name).read_bytes() == bytes([step]) * 200


# ---- Weights of others -----------------------------------------------------------------------------


def make_google_bert(folder):
    bert_files.write_google(folder, made_arrays(seed=1))


def make_hugging_face_bert(folder):
    bert_files.write_safetensors(folder / "model.safetensors", bert_files.as_hugging_face(made_arrays(seed=1)))


def bert_weights(name):
    def read(folder, choices):
        found = bert_checkpoints.read(str(folder / name))
        assert all(isinstance(each, np.ndarray) for each in found.values())

    return read


# ---- Images ----------------------------------------------------------------------------------------


def make_images(folder):
    for kind in ("JPEG", "PNG", "GIF", "BMP"):
        (folder / kind).write_bytes(image_sets.encoded(kind=kind))


def check_images(folder, choices):
    for kind in ("JPEG", "PNG", "GIF", "BMP"):
        try:
            found = check.check((folder / kind).read_bytes())
        except check.BadImage as reason:
            assert str(reason)
        else:
            assert found.height > 0 and found.width > 0


def make_image_folder(folder):
    image_sets.write_folder(folder / "source", image_sets.files_of("train", 4))


def prepare_image_folder(folder, choices):
    """Every image is in the set, or left out with a reason."""
    options = prepare_images.Options(max_bad_fraction=0.5, validation_fraction=0.0)
    content, _ = prepare_images.prepare(str(folder / "source"), str(folder / "out"), options)
    assert content["splits"]["train"]["examples"] + len(content["left_out"]) == 12


def make_image_set(folder):
    split = made_images.write_split(folder, (5, 4))
    image_manifest.save(str(folder), made_images.manifest_of(train=split), {})


def read_image_set(folder, choices):
    found = image_manifest.load(str(folder))
    assert found.splits["train"].examples == 9
    ImageRecords(found.splits["train"], found, image_size=16)


# Values of a feature that nobody expects there.
ODD = (0, -1, 2**62, b"", b"x", b"\xff\xfe", b"label " * 200_000, b"\xff" * 1_000_000)


def with_endless_number(record):
    """An example in which a million bytes of 0xFF are a list of ints, not of bytes."""
    sizes = b"\xc4\x84\x3d\x0a\xc0\x84\x3d\xff\xff"
    return record.replace(b"\x0a" + sizes, b"\x1a" + sizes)


def with_odd_records(path, features, choices):
    """Writes records of which each has, at random, an odd feature, one feature less, or damaged bytes."""
    records = []
    for _ in range(choices.randint(1, 6)):
        kind, changed = choices.random(), dict(features)
        if kind < 0.2:
            changed[choices.choice(sorted(changed))] = choices.choice(ODD)
        elif kind < 0.3:
            del changed[choices.choice(sorted(changed))]
        record = with_endless_number(tfrecord.example(changed))
        records.append(tfrecord.framed(mutations.of_bytes(choices, record) if kind > 0.95 else record))
    content = b"".join(records)
    path.write_bytes(mutations.of_bytes(choices, content) if choices.random() < 0.2 else content)


def index_images_of_others(folder, choices):
    features = {"image/encoded": image_sets.encoded(), "image/class/label": choices.randint(1, 3)}
    path = folder / "train-00000-of-00001"
    with_odd_records(path, {**features, "image/class/synset": b"n01440764", "image/class/text": b"tench"}, choices)
    keys = existing.keys_of(str(path))
    offsets, names = existing.index_file(keys, str(path), lambda: None)
    assert bool(names) == bool(len(offsets))
    existing.classes_of(names, keys, str(folder))


def index_bert_of_others(folder, choices):
    features = dict.fromkeys(bert_manifest.OF_TOKENS, [1] * 8) | dict.fromkeys(bert_manifest.OF_PREDICTIONS, [1] * 2)
    features |= {"masked_lm_weights": array.array("f", [1.0] * 2), bert_manifest.NEXT_SENTENCE: 0}
    path = str(folder / "records")
    with_odd_records(folder / "records", features, choices)
    if existing_bert.find(path):
        assert len(existing_bert.index(existing_bert.shapes_of(path), path, lambda: None)) >= 1


def make_records(folder):
    frames = [tfrecord.framed(bytes([number]) * (10 + 7 * number)) for number in range(12)]
    (folder / "records").write_bytes(b"".join(frames))


def index_records(folder, choices):
    """From frame to frame, to the end: no byte of the file is of no record."""
    content = (folder / "records").read_bytes()
    offsets = tfrecord.offsets(str(folder / "records")).tolist()
    for first, last in zip(offsets, [*offsets[1:], len(content)]):
        length = tfrecord.LENGTH.unpack_from(content, first)[0]
        assert last - first == tfrecord.HEADER_BYTES + length + tfrecord.FOOTER_BYTES


# ---- Texts -----------------------------------------------------------------------------------------

SENTENCES = bert_sets.plain(8)
WIKI = " = The cat = \n\n {} \n\n = = Dog = = \n\n the dog ran . \n".format(" ".join(SENTENCES.split()))
# A corpus in each of the layouts that are understood, and packed.
CORPORA = {
    "text.txt": SENTENCES.encode(),
    "wiki.tokens": WIKI.encode(),
    "text.jsonl": "".join(json.dumps({"text": part}) + "\n" for part in SENTENCES.split("\n\n")).encode(),
    "text.txt.gz": gzip.compress(SENTENCES.encode()),
}
SETTINGS = {"max_seq_length": 32, "max_predictions_per_seq": 5, "next_sentence": False}


def make_bert_corpora(folder):
    for name, content in CORPORA.items():
        (folder / name).mkdir()
        (folder / name / name).write_bytes(content)
    (folder / "vocabulary").mkdir()
    bert_sets.write_vocabulary(folder / "vocabulary")


def damaged_corpus(folder):
    damaged = [name for name, content in CORPORA.items() if (folder / name / name).read_bytes() != content]
    return damaged[0] if damaged else "text.txt"


def prepare_bert_corpora(folder, choices):
    name = damaged_corpus(folder)
    options = BertOptions(**SETTINGS, vocab_file=str(folder / "vocabulary" / "given_vocab.txt"))
    content, _ = prepare_bert.prepare(str(folder / name), str(folder / "out"), options)
    split = bert_manifest.load(str(folder / "out")).splits["train"]
    assert content["counts"]["train"]["sequences"] == split.examples
    if name == "text.txt":
        # A document of which bytes were left out is counted; nothing but such bytes is a blank line.
        lines = (folder / name / name).read_bytes().split(b"\n")
        lines = [line for line in lines if line.decode("utf-8", "ignore").strip()]
        found = sum(of_split["not_utf8"] for of_split in content["counts"].values())
        assert bool(found) == any(line.decode("utf-8", "ignore").encode() != line for line in lines)


def make_words(folder):
    for split in corpus.SPLITS:
        (folder / f"{split}.txt").write_text("the cat sat\n\non <unk> the mat\n" * 5)


def prepare_words(folder, choices):
    """Every word of every line is in the set, and an end for each line."""
    texts = {split: str(folder / f"{split}.txt") for split in corpus.SPLITS}
    corpus.prepare(texts, str(folder / "out"))
    found = corpus.load(str(folder / "out"))
    for split in texts:
        lines = (folder / f"{split}.txt").read_bytes().decode().split("\n")
        lines = lines[:-1] if lines[-1] == "" else lines
        assert len(getattr(found, split)) == sum(len(line.split()) + 1 for line in lines), split


def make_parallel_texts(folder):
    translation_sets.pair(folder, "train", 30)
    translation_sets.pair(folder, "held", 30)
    (folder / "vocabulary.model").write_bytes(translation_sets.small_vocabulary().content)


def prepare_parallel_texts(folder, choices):
    """A pair is in the set, or counted where it was left out."""
    train, held = ([[str(folder / f"{name}.{side}")] for side in range(2)] for name in ("train", "held"))
    options = TranslationOptions(vocabulary=str(folder / "vocabulary.model"))
    out = str(folder / "out")
    content, _ = prepare_translation.Texts(prepare_translation.splits_of(train, held), options).prepare(out)
    counts = content["counts"]["train"]
    lines = (folder / "train.0").read_bytes().removesuffix(b"\n").count(b"\n") + 1
    assert counts["pairs"] + sum(counts[reason] for reason in ("empty", "too_long", "extreme_ratio")) == lines
    assert translation_manifest.load(out).splits["train"].examples == counts["pairs"]


def make_translation_set(folder):
    texts = [[translation_sets.pair(folder, *each)] for each in (("train", 40), ("held", 10, 40), ("last", 10, 50))]
    translation_sets.prepared(folder, *texts)


def read_translation_set(folder, choices):
    found = translation_manifest.load(str(folder / "out"))
    for split in ("validation", "test"):
        assert [len(side) for side in found.texts(split)] == [10, 10]
    assert len(found.lengths["train"]) == found.splits["train"].examples
    TranslationRecords(found.splits["train"], found)


# ---- Fine-tuning -----------------------------------------------------------------------------------


def glue_tables():
    """(task, split, whether the file has a header, bytes of 200 rows) of each file of GLUE."""
    for name, task in glue.TASKS.items():
        for split in glue.splits(name):
            test = split.startswith("test")
            columns = task.columns or ("index", *task.texts, *([] if test else [task.label]))
            columns = ("index", *task.texts) if test and task.columns else columns
            label = task.classes[-1] if task.classes else "2.5"
            row = "\t".join(label if column == task.label else f"some {column}" for column in columns)
            header = [] if task.columns and not test else ["\t".join(columns)]
            yield name, split, bool(header), "\n".join([*header, *[row] * 200]).encode() + b"\n"


def make_glue(folder):
    for name, split, _, content in glue_tables():
        (folder / name).mkdir(exist_ok=True)
        (folder / name / f"{split}.tsv").write_bytes(content)


def read_glue(folder, choices):
    """No row is lost without a word."""
    for name, split, has_header, whole in glue_tables():
        content = (folder / name / f"{split}.tsv").read_bytes()
        if content != whole:
            rows = glue.read(str(folder), name, split)
            lines = [line for line in content.removeprefix(b"\xef\xbb\xbf").split(b"\n") if line.rstrip(b"\r")]
            assert len(rows.texts) + len(rows.bad) == len(lines) - has_header
            assert rows.labels is None or len(rows.labels) == len(rows.texts)


def make_questions(folder):
    made_squad.write(folder / "squad.json", version_2=True)
    write_json(folder / "passage.json", test_race.PASSAGE)


def read_questions(folder, choices):
    tokenizer = made_vocabulary.tokenizer(folder / "vocab.txt")
    passage = (folder / "passage.json").read_bytes()
    test_race.write_tar(folder / "RACE.tar.gz", {f"{level}/1.txt": passage for level in race.LEVELS})
    questions = race.read(str(folder), "dev")
    firsts = [tokenizer.ids(question.article) for question in questions]
    seconds = [tokenizer.ids(f"{question.text} {question.options[0]}") for question in questions]
    text_pairs.pack(tokenizer.vocabulary, firsts, seconds, 16)
    questions = squad.read(str(folder / "squad.json"))
    windows = squad.windows(questions, tokenizer, max_seq_length=40, doc_stride=8, max_query_length=12)
    assert set(windows.question.tolist()) <= set(range(len(questions)))


# ---- Experiments and sweeps -----------------------------------------------------------------------

SWEEP = """
from tfbigbatch import sweeps
from tfbigbatch.cli import tpu_check
from tfbigbatch.config import load_config, new_config, override


def get_sweep():
    made = sweeps.Sweep('Digits')
    made.add('a', new_config('digits_lstm'), seeds=(0, 1))
    return made
"""


def make_experiments(folder):
    """Damaged files are executed: what these import is the package, and what they do is to set fields."""
    for name in ("lstm_small_batch.py", "lstm_legw.py"):
        shutil.copy(os.path.join(EXPERIMENTS, name), folder)
    (folder / "sweep.py").write_text(SWEEP)


def load_experiments(folder, choices):
    # A module is known by its path.
    folder = folder.rename(folder.parent / f"experiments_{choices.random()}")
    load_config(str(folder / "lstm_legw.py"))
    sweeps.load(str(folder / "sweep.py"))


def write_json(path, content):
    path.write_text(json.dumps(content))


# ---- The table -------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Reader:
    """What reads a folder.

    Attributes:
      make: writes whole files into an empty folder.
      read: function of the folder, after one of its files was damaged, and a random.Random. It returns, or raises
        InputError; what it asserts holds in every case.
      damaged: pattern of the names of the files that are damaged.
      cases: their number with the slow tests.
      quick: True if a tenth of them is in the default run.
      outcomes: those that some of the cases have to have.
    """

    make: Callable
    read: Callable
    damaged: str = "*"
    cases: int = 400
    quick: bool = True
    outcomes: tuple[str, ...] = ("fine", "refused")


def nothing(folder):
    """The reader writes its own files."""


FINE = ("fine",)
READERS = {
    "a report": Reader(make_run, read_run, "*.json*"),
    "a run that is resumed": Reader(make_run, resume_run),
    "rollbacks": Reader(make_rollbacks, read_rollbacks),
    "results that are kept": Reader(make_results_cache, read_results_cache),
    "the newest checkpoint": Reader(make_checkpoints, restore_newest, "step-2*", 60, quick=False, outcomes=FINE),
    "weights of a checkpoint": Reader(
        make_checkpoints, init_from_checkpoint, "step-2*", 60, quick=False, outcomes=("refused",)
    ),
    "a run that is loaded": Reader(make_whole_run, load_run, "*.json*", cases=30, quick=False),
    "snapshots": Reader(make_snapshots, read_snapshots, outcomes=FINE),
    "BERT's weights by Google": Reader(make_google_bert, bert_weights("bert_model.ckpt")),
    "BERT's weights by Hugging Face": Reader(make_hugging_face_bert, bert_weights("model.safetensors")),
    "images": Reader(make_images, check_images, outcomes=FINE),
    "a folder of images": Reader(make_image_folder, prepare_image_folder, cases=40, quick=False, outcomes=FINE),
    "prepared images": Reader(make_image_set, read_image_set, "*.[jn]*[ny]", outcomes=("refused",)),
    "TFRecords of images by others": Reader(nothing, index_images_of_others),
    "TFRecords for BERT by others": Reader(nothing, index_bert_of_others),
    "TFRecords": Reader(make_records, index_records),
    "a corpus for BERT": Reader(make_bert_corpora, prepare_bert_corpora, "wiki*/*", cases=100),
    "a corpus for BERT as text": Reader(make_bert_corpora, prepare_bert_corpora, "text*/*", cases=100),
    "a corpus of words": Reader(make_words, prepare_words, cases=100),
    "parallel texts": Reader(make_parallel_texts, prepare_parallel_texts, "train.*", cases=100),
    "prepared translations": Reader(make_translation_set, read_translation_set, "out/*.[jntm]*", cases=120),
    "GLUE": Reader(make_glue, read_glue, cases=150),
    "SQuAD and RACE": Reader(make_questions, read_questions),
    "experiments and sweeps": Reader(make_experiments, load_experiments, "[!_]*[yw].py", cases=100),
}


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch):
    """The cases are of what files hold, not of power cuts: hundreds of them would wait for the disk for minutes."""
    monkeypatch.setattr(os, "fsync", lambda file: None)


def every_case(name):
    """(reader, range of seeds): the first in the default run, all with the slow tests."""
    reader, asked = READERS[name], os.environ.get("FUZZ_CASES")
    cases = reader.cases
    if asked:
        cases = max(1, round(int(asked) * cases / sum(each.cases for each in READERS.values())))
    quick = pytest.param(name, cases // 10, id=f"{name}, the first")
    whole = pytest.param(name, cases, marks=pytest.mark.slow, id=name)
    return [quick, whole] if reader.quick and not asked else [whole]


@pytest.mark.parametrize("name, cases", [case for name in READERS for case in every_case(name)])
def test_damage_is_harmless_or_one_clear_error(tmp_path, name, cases):
    reader, folder = READERS[name], tmp_path / "files"
    folder.mkdir()
    reader.make(folder)
    whole = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    damaged = sorted(path for path in whole if fnmatch.fnmatch(path, reader.damaged))
    assert damaged or not whole

    def case(choices, damaged=damaged):
        for each in tmp_path.iterdir():
            shutil.rmtree(each)
        folder.mkdir()
        for path, content in whole.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        if damaged:
            path = choices.choice(damaged)
            (folder / path).write_bytes(mutations.of_file(choices, path, whole[path]))
        reader.read(folder, choices)

    if damaged:
        case(random.Random(0), damaged=())
    outcomes = judge(range(cases), case)
    assert set(outcomes) >= set(reader.outcomes) or cases < 20


def judge(seeds, case):
    """Runs case(choices) for each seed.

    Args:
      seeds: iterable of int.
      case: function of a random.Random; it may return, and may raise InputError with a message.

    Returns:
      collections.Counter of 'fine' and 'refused'.

    Raises:
      AssertionError: a case raised anything else, said nothing or hung; the message has its seed.
    """
    return collections.Counter(outcome(seed, case) for seed in seeds)


class Hangs(BaseException):
    """A case took longer than it may; no `except Exception` holds it up."""


def outcome(seed, case):
    def hang(number, frame):
        raise Hangs(f"seed {seed}: no end after {WORK:g} s of work, or {WAIT:g} s of waiting")

    before = {each: signal.signal(each, hang) for each in (signal.SIGALRM, signal.SIGPROF)}
    signal.setitimer(signal.ITIMER_REAL, WAIT)
    signal.setitimer(signal.ITIMER_PROF, WORK)
    try:
        case(random.Random(seed))
    except InputError as error:
        assert len(str(error)) > 10, f"seed {seed}: an error that says nothing, {error!r}"
        return "refused"
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}") from error
    except Exception as error:
        raise AssertionError(f"seed {seed}: a raw {type(error).__name__}: {str(error)[:300]}") from error
    finally:
        for timer in (signal.ITIMER_REAL, signal.ITIMER_PROF):
            signal.setitimer(timer, 0)
        for each, handler in before.items():
            signal.signal(each, handler)
    return "fine"


# ---- Fields, and records in their pipelines --------------------------------------------------------

TEXTS = ("", "0", "-1", "3.5", "1e999", "-inf", "nan", "9" * 30, "None", "True", "()", "(1,)", "('3 steps',)", "({},)")
TEXTS += ("({'duration': 3},)", "({'schedule.learning_rate': float('inf')})", "({'batch_size': 0},)", "[", "x", "\0")
TEXTS += ("legw", "-3 steps", "0 epochs", "1e300 epochs", "1e999 steps", f"{'9' * 400} steps", "0.0001 epochs")


class Data:
    """As much of a dataset as a plan needs."""

    data_signature, carries_state = None, False

    def __init__(self):
        self.train = self

    def examples_in_epoch(self, batch_size):
        return 1437


def test_odd_values_of_fields(tmp_path):
    """What the trainer does with fields before it touches a device or a folder."""

    def case(choices):
        config = new_config("digits_lstm")
        # A very large network is not refused: it runs out of memory.
        names = [name for name in flat(config.to_dict()) if not name.endswith("hidden_units")]
        for _ in range(choices.randint(1, 3)):
            override(config, [f"{choices.choice(names)}={choices.choice(TEXTS)}"])
        check_fields(config)
        Rollbacks(str(tmp_path), config).slowed(config)
        for phase in phases_of(config, lambda fields: Data(), replicas=2):
            assert phase.total_steps >= 0 and phase.evaluation_batch_size >= 1

    assert set(judge(range(60), case)) == {"fine", "refused"}


def test_a_number_without_an_end_is_refused_at_once():
    record = with_endless_number(tfrecord.example({"label": b"\xff" * 1_000_000}))

    def case(choices):
        with pytest.raises(ValueError, match="no tf.train.Example"):
            tfrecord.values(record)

    judge([0], case)
