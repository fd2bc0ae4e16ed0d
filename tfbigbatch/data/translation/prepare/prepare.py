"""From parallel texts to a prepared folder: checked, cleaned and written, and gone on with after a stop."""

import dataclasses
import itertools
import os

import numpy as np

from tfbigbatch.data.records import manifest as record_manifest
from tfbigbatch.data.records import prepared_folder
from tfbigbatch.data.records import shards as shard_files
from tfbigbatch.data.translation import manifest as translation_manifest
from tfbigbatch.data.translation import vocabulary as translation_vocabulary
from tfbigbatch.data.translation.prepare import shards, texts, vocabulary
from tfbigbatch.data.translation.prepare.settings import REFUSALS, Settings
from tfbigbatch.errors import InputError
from tfbigbatch.utils import files
from tfbigbatch.utils import processes as workers
from tfbigbatch.utils.files import atomic_write

VOCABULARY_SIZE = 32000
# The special pieces, the bytes, and some characters.
_FEWEST_PIECES = 300


@dataclasses.dataclass(frozen=True)
class Options:
    """How texts are prepared.

    Attributes:
      settings: Settings.
      vocabulary: path of a sentencepiece model; None where one is learnt.
      vocabulary_size: the pieces of the one that is learnt; None for VOCABULARY_SIZE, or where one is given.
      vocabulary_sentences: the pairs that it is learnt from, at most: every second, third, ... one of a larger text.
      shard_megabytes: about how much text goes into a shard, in 10^6 bytes.
      processes: how many at once.
      overwrite: whether to replace what was prepared from other texts or with other options.

    Raises:
      ValueError: a value is out of its range, or both a vocabulary and a size are given.
    """

    settings: Settings = Settings()
    vocabulary: str | None = None
    vocabulary_size: int | None = None
    vocabulary_sentences: int = 2_000_000
    shard_megabytes: float = 64.0
    processes: int = 1
    overwrite: bool = False

    def __post_init__(self):
        if self.vocabulary is not None and self.vocabulary_size is not None:
            raise InputError("Give either --vocabulary=FILE or --vocabulary_size=NUMBER, and not both.")
        for name, fine, expected in (
            (
                "vocabulary_size",
                self.vocabulary_size is None or self.vocabulary_size >= _FEWEST_PIECES,
                f"{_FEWEST_PIECES} or more: 256 are single bytes",
            ),
            ("vocabulary_sentences", self.vocabulary_sentences >= 1, "1 or more"),
            ("shard_megabytes", self.shard_megabytes > 0, "more than 0"),
            ("processes", self.processes >= 1, "1 or more"),
        ):
            if not fine:
                raise InputError(f"--{name}={getattr(self, name)}: expected {expected}.")


def splits_of(train, validation=((), ()), test=((), ())):
    """The splits of some files: training's and validation's files are joined, and each test pair is a set of its own.

    Args:
      train, validation, test: (source files, target files), lists of paths.

    Returns:
      dictionary from 'train', 'validation', 'test', 'test_2', ... to lists of (source, target).

    Raises:
      ValueError: a list has more files than the other, or there is no training text.
    """
    paired = {}
    for prefix, (sources, targets) in (("", train), ("valid_", validation), ("test_", test)):
        if len(sources) != len(targets):
            raise InputError(
                f"--{prefix}source_files names {len(sources)} files, --{prefix}target_files {len(targets)}: expected "
                "a target for each source, in the same order."
            )
        paired[prefix] = list(zip(sources, targets))
    if not paired[""]:
        raise InputError("Give the training text: --source_files=train.en --target_files=train.de.")
    tests = {f"test_{number}" if number > 1 else "test": [pair] for number, pair in enumerate(paired["test_"], 1)}
    return {"train": paired[""], **({"validation": paired["valid_"]} if paired["valid_"] else {}), **tests}


def prepare(splits, output_dir, options, say=lambda line: None):
    """Makes a prepared folder of parallel texts, or finds it made.

    The files are the same whatever the number of processes. Memory does not grow with the texts, but for twelve bytes a
    pair, and for the sentences that the vocabulary is learnt from.

    Args:
      splits: dictionary of `splits_of`.
      output_dir: the prepared folder; made where it does not exist.
      options: Options.
      say: called with a line on what was found, before the long work begins; on the first pairs that were left out,
        for each reason; and on each sentence that was cut.

    Returns:
      (all that manifest.json says, as a dictionary; True where the folder held it already).

    Raises:
      ValueError: a text or the vocabulary cannot be used; the folder holds something else, or another command is at
        work in it; or it cannot be written.
      Preempted: SIGINT or SIGTERM came; the same call goes on from there.
    """
    given = translation_vocabulary.Vocabulary.load(options.vocabulary) if options.vocabulary else None
    paths = list(dict.fromkeys(path for pairs in splits.values() for pair in pairs for path in pair))
    plan = _plan(splits, paths, options, given)
    with prepared_folder.lock(output_dir) as work:
        if translation_manifest.is_whole(output_dir):
            content = translation_manifest.read(output_dir)
            if content["digest"] == plan["digest"]:
                return content, True
        # Before the folder is claimed: a text that is put right afterwards is another one.
        scans = _scanned(paths, options.processes)
        for pairs in splits.values():
            for pair in pairs:
                texts.check_aligned(*pair, scans)
        prepared_folder.claim(output_dir, plan, record_manifest.paths(output_dir, splits), options.overwrite)
        learnt = given or _learnt(splits["train"], scans, os.path.join(work, plan["digest"]), options, say)
        path = translation_vocabulary.save(learnt, output_dir, translation_manifest.VOCABULARY)
        planned = shards.plan(
            splits, scans, output_dir, (path, learnt.digest), options.settings, options.shard_megabytes
        )
        lines = {name: sum(scans[source].lines for source, _ in pairs) for name, pairs in splits.items()}
        found = ", ".join(f"{name} {count:,}" for name, count in lines.items())
        say(f"lines: {found}; {sum(scan.bytes for scan in scans.values()) / 1e6:,.1f} MB; {len(planned):,} shards")
        results = _written(planned, options.processes)
        for name, pairs in splits.items():
            if name != "train":
                _copy(pairs, translation_manifest.text_paths(output_dir, name))
        _save(output_dir, plan, splits, scans, planned, results, learnt)
        for line in (*_left_out(planned, results), *_cut(planned, results, options.settings.max_eval_length)):
            say(line)
        return translation_manifest.read(output_dir), False


def _plan(splits, paths, options, given):
    """What the result depends on, see claim.plan."""
    kept = {
        **dataclasses.asdict(options.settings),
        "shard_megabytes": options.shard_megabytes,
        "vocabulary": given.digest if given else f"learnt, {options.vocabulary_size or VOCABULARY_SIZE}",
        **({} if given else {"vocabulary_sentences": options.vocabulary_sentences}),
    }
    contents = {name: [[os.path.basename(path) for path in pair] for pair in pairs] for name, pairs in splits.items()}
    rows = [(os.path.basename(path), texts.size(path)) for path in paths]
    return prepared_folder.fingerprint(paths[0], translation_manifest.KIND.content, kept, contents, rows)


def _scanned(paths, processes):
    """Dictionary from paths to texts.Scan."""
    found = {}
    # A worker's start takes longer than a small corpus.
    several = processes if sum(map(texts.size, paths)) > 100e6 else 1
    with workers.progress_bar(None, 0, f" x {texts.GRAIN} lines looked through") as progress:
        workers.run_tasks(texts.scan, paths, processes=several, ended=found.__setitem__, progress=progress)
    return found


def _learnt(pairs, scans, folder, options, say):
    """The vocabulary that a command of the same plan learnt into `folder`, or one that is learnt now."""
    path, size = os.path.join(folder, translation_manifest.VOCABULARY), options.vocabulary_size or VOCABULARY_SIZE
    if os.path.exists(path):
        return translation_vocabulary.Vocabulary.load(path)
    say(f"learning a vocabulary of {size:,} pieces")
    total = sum(scans[source].lines for source, _ in pairs)
    learnt = vocabulary.learn(vocabulary.sample(pairs, -(-total // options.vocabulary_sentences)), size)
    os.makedirs(folder, exist_ok=True)
    translation_vocabulary.save(learnt, folder, translation_manifest.VOCABULARY)
    return learnt


def _written(planned, processes):
    """Dictionary from the shards' names to what they hold, once all are whole."""
    results = {shard.name: shard_files.done(shard) for shard in planned}
    todo = [shard for shard in planned if results[shard.name] is None]
    total, left = (sum(-(-shard.lines // texts.GRAIN) for shard in some) for some in (planned, todo))

    def ended(shard, result):
        results[shard.name] = result

    with workers.progress_bar(total, total - left, f" x {texts.GRAIN} lines") as progress:
        workers.run_tasks(shards.write, todo, processes=processes, ended=ended, progress=progress)
    return results


def _copy(pairs, paths):
    """Puts the lines of a held-out set beside its records, as they came: they are what translations are scored on."""
    for side, path in enumerate(paths):
        try:
            atomic_write(path, lambda file, side=side: texts.copy([pair[side] for pair in pairs], file))
        except OSError as error:
            raise InputError(f"{path} cannot be written: {error.strerror or error}.") from None


def _save(output_dir, plan, splits, scans, planned, results, learnt):
    """Writes the manifest."""
    found, lengths, counts, sources = {}, {}, {}, {}
    for split, pairs in splits.items():
        part = [shard for shard in planned if shard.split == split]
        found[split] = record_manifest.Split.of_files(
            split,
            [shard.path for shard in part],
            [files.read_array(shard.offsets) for shard in part],
            [results[shard.name]["bytes"] for shard in part],
        )
        lengths[split] = np.concatenate([files.read_array(shard.lengths) for shard in part])
        counts[split] = {name: sum(results[shard.name][name] for shard in part) for name in shards.COUNTS}
        for side, name in enumerate(translation_manifest.SIDES):
            # How many sentences there are of 0, 1, 2, ... pieces.
            counts[split][f"{name}_histogram"] = np.bincount(lengths[split][:, side]).tolist()
        sources[split] = [
            [
                {"name": os.path.basename(path), "lines": scans[path].lines, "sha256": scans[path].sha256}
                for path in pair
            ]
            for pair in pairs
        ]
    if not counts["train"]["pairs"]:
        raise InputError("Every training pair was left out: see --max_length and --max_ratio, and look at the texts.")
    manifest = translation_manifest.Manifest(
        output_dir, translation_manifest.bytes_of_id(learnt), learnt, found, lengths
    )
    sha256 = {shard.path: results[shard.name]["sha256"] for shard in planned}
    translation_manifest.save(output_dir, manifest, sha256=sha256, about={**plan, "texts": sources, "counts": counts})


def _left_out(planned, results):
    """A line for each of the first pairs that were left out, for each reason."""
    for reason, words in REFUSALS.items():
        # A shard from before they were named names none.
        found = (
            (shard.pair, line)
            for shard in planned
            for line in results[shard.name].get("left_out_lines", {}).get(reason, ())
        )
        for (source, target), line in itertools.islice(found, shards.NAMED_LEFT_OUT):
            yield f"left out, {words}: {source} and {target}, line {line}"


def _cut(planned, results, most):
    """A line for each held-out sentence that was cut, as far as the shards' records name them."""
    for shard in planned:
        for path, line, pieces in results[shard.name]["cut_lines"]:
            yield f"warning: {path}, line {line}: {pieces} pieces; cut to --max_eval_length={most}"
