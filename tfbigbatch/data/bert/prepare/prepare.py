"""From plain text to a prepared folder: found, tokenised and written, and gone on with after a stop."""

import dataclasses
import os

import numpy as np

from tfbigbatch.data import tokenizer
from tfbigbatch.data.bert import manifest as bert_manifest
from tfbigbatch.data.bert.prepare import corpus, shards, vocabulary
from tfbigbatch.data.bert.prepare.settings import Settings
from tfbigbatch.data.records import manifest as record_manifest
from tfbigbatch.data.records import prepared_folder
from tfbigbatch.data.records import shards as shard_files
from tfbigbatch.errors import InputError
from tfbigbatch.utils import files
from tfbigbatch.utils import processes as workers


@dataclasses.dataclass(frozen=True)
class Options:
    """How a corpus is prepared.

    Attributes:
      settings: Settings.
      vocab_file: path of a vocab.txt; None where one is trained.
      train_vocab_size: the tokens of the vocabulary that is trained; None where one is given.
      validation_share: the share of the documents that is held out, in [0, 1).
      shards: dictionary from splits to their numbers of shards.
      shard_megabytes: about how much text goes into the shards of other splits, in 10^6 bytes.
      processes: how many at once.
      overwrite: whether to replace what was prepared from another source or with other options.

    Raises:
      ValueError: a value is out of its range, or not one of vocab_file and train_vocab_size is given.
    """

    settings: Settings = Settings()
    vocab_file: str | None = None
    train_vocab_size: int | None = None
    validation_share: float = 0.0
    shards: dict = dataclasses.field(default_factory=dict)
    shard_megabytes: float = 64.0
    processes: int = 1
    overwrite: bool = False

    def __post_init__(self):
        if (self.vocab_file is None) == (self.train_vocab_size is None):
            raise InputError("Give either --vocab_file=FILE or --train_vocab_size=NUMBER, and not both.")
        for name, fine, expected in (
            ("train_vocab_size", (self.train_vocab_size or 100) >= 100, "100 or more"),
            ("validation_share", 0 <= self.validation_share < 1, "0 to less than 1"),
            ("shard_megabytes", self.shard_megabytes > 0, "more than 0"),
            ("processes", self.processes >= 1, "1 or more"),
        ):
            if not fine:
                raise InputError(f"--{name}={getattr(self, name)}: expected {expected}.")


def prepare(source, output_dir, options, say=lambda line: None):
    """Makes a prepared folder of a corpus, or finds it made.

    The files are the same whatever the number of processes.

    Args:
      source: path, see corpus.UNDERSTOOD.
      output_dir: the prepared folder; made where it does not exist.
      options: Options.
      say: called with a line on what was found, before the long work begins.

    Returns:
      (all that manifest.json says, as a dictionary; True where the folder held it already).

    Raises:
      ValueError: the source or the vocabulary cannot be used; the folder holds something else, or another
        command is at work in it; or it cannot be written.
      Preempted: SIGINT or SIGTERM came; the same call goes on from there.
    """
    _refuse_inside(source, output_dir)
    names, paths = corpus.find(source)
    given = tokenizer.Vocabulary.load(options.vocab_file) if options.vocab_file else None
    with prepared_folder.lock(output_dir) as work:
        plan = _plan(source, names, paths, options, given)
        prepared_folder.claim(
            output_dir, plan, record_manifest.paths(output_dir, ("train", "validation")), options.overwrite
        )
        if bert_manifest.is_whole(output_dir):
            return bert_manifest.read(output_dir), True
        documents = _scanned(paths, options.processes)
        if not len(documents):
            raise InputError(f"--source={source} has no text: no document in {len(paths):,} files.")
        learnt = given or _trained(documents, os.path.join(work, plan["digest"]), options, say)
        known = bert_manifest.save_vocabulary(output_dir, learnt), bert_manifest.digest(learnt)
        planned = shards.plan(
            documents,
            output_dir,
            known,
            options.settings,
            validation_share=options.validation_share,
            shards=options.shards,
            megabytes=options.shard_megabytes,
        )
        say(
            f"{', '.join(sorted(set(documents.layouts)))}: {len(documents):,} documents in "
            f"{len(paths):,} files, {int(documents.length.sum()) / 1e6:,.1f} MB; {len(planned):,} shards"
        )
        results = _written(planned, options.processes)
        _save(output_dir, plan, planned, results, learnt, options)
        return bert_manifest.read(output_dir), False


def _refuse_inside(source, output_dir):
    outer, inner = os.path.realpath(source), os.path.realpath(output_dir)
    if os.path.commonpath([outer, inner]) == outer:
        raise InputError(
            f"--output_dir={output_dir} lies in --source={source}: vocab.txt would be taken for a part of the "
            "source the next time. Choose a folder outside of it."
        )


def _plan(source, names, paths, options, given):
    """What the result depends on, see claim.plan."""
    kept = {
        **dataclasses.asdict(options.settings),
        "validation_share": options.validation_share,
        "shards": options.shards,
        "shard_megabytes": options.shard_megabytes,
        "vocabulary": bert_manifest.digest(given) if given else f"trained, {options.train_vocab_size}",
    }
    rows = [(name, os.path.getsize(path)) for name, path in zip(names, paths)]
    return prepared_folder.fingerprint(source, bert_manifest.KIND.content, kept, [], rows)


def _scanned(paths, processes):
    """The corpus.Documents of some files."""
    found = {}
    # A worker's start takes longer than a small corpus.
    several = processes if sum(map(os.path.getsize, paths)) > 100e6 else 1
    with workers.progress_bar(len(paths), 0, "file") as progress:
        workers.run_tasks(corpus.scan, paths, processes=several, ended=found.__setitem__, progress=progress)
    return corpus.documents(paths, [found[path] for path in paths])


def _trained(documents, folder, options, say):
    """The vocabulary that a command of the same plan learnt into `folder`, or one that is learnt now."""
    if os.path.exists(os.path.join(folder, bert_manifest.VOCABULARY)):
        return tokenizer.Vocabulary.load(os.path.join(folder, bert_manifest.VOCABULARY))
    held = shards.held_out(len(documents), options.validation_share, options.settings.seed)
    say(f"learning a vocabulary of {options.train_vocab_size:,} tokens")
    learnt = vocabulary.train(
        documents.only(np.flatnonzero(~held)), options.train_vocab_size, options.settings.lower_case
    )
    os.makedirs(folder, exist_ok=True)
    bert_manifest.save_vocabulary(folder, learnt)
    return learnt


def _written(planned, processes):
    """Dictionary from the shards' names to what they hold, once all are whole."""
    results = {shard.name: shard_files.done(shard) for shard in planned}
    todo = [shard for shard in planned if results[shard.name] is None]
    total, left = sum(len(shard.documents) for shard in planned), sum(len(shard.documents) for shard in todo)

    def ended(shard, result):
        results[shard.name] = result

    with workers.progress_bar(total, total - left, "document") as progress:
        workers.run_tasks(shards.write, todo, processes=processes, ended=ended, progress=progress)
    return results


def _save(output_dir, plan, planned, results, learnt, options):
    """Writes the manifest."""
    settings, splits, counts = options.settings, {}, {}
    for split in dict.fromkeys(shard.split for shard in planned):
        part = [shard for shard in planned if shard.split == split]
        splits[split] = record_manifest.Split.of_files(
            split,
            [shard.path for shard in part],
            [files.read_array(shard.offsets) for shard in part],
            [results[shard.name]["bytes"] for shard in part],
        )
        counts[split] = {name: sum(results[shard.name][name] for shard in part) for name in shards.COUNTS}
        places = counts[split]["sequences"] * settings.max_seq_length
        counts[split]["padding_share"] = 1 - counts[split]["sequence_tokens"] / places if places else 0.0
    if not counts.get("train", {}).get("sequences"):
        raise InputError("The text gave no sequence to train on: it has too few sentences. See --nonext_sentence.")
    manifest = bert_manifest.Manifest(
        masking=settings.masking,
        max_seq_length=settings.max_seq_length,
        max_predictions_per_seq=settings.max_predictions_per_seq,
        next_sentence=settings.next_sentence,
        packed=settings.packed,
        bytes_of_id=shards.bytes_of_id(learnt),
        keys=bert_manifest.STANDARD_KEYS,
        vocabulary=learnt,
        splits=splits,
    )
    sha256 = {shard.path: results[shard.name]["sha256"] for shard in planned}
    bert_manifest.save(output_dir, manifest, sha256=sha256, about={**plan, "counts": counts})
