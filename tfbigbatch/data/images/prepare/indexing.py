"""The work of taking TFRecords as they lie: a manifest and an index, and no copy."""

import os

from tfbigbatch.data.images import manifest as image_manifest
from tfbigbatch.data.images.prepare import existing, labels
from tfbigbatch.data.records import prepared_folder
from tfbigbatch.errors import InputError


class Indexing:
    """Looks at TFRecords, and what to do with each; its faces are those of Conversion.

    Args:
      source: the folder that was given.
      records: dictionary from splits to lists of absolute paths, of existing.find.
      output_dir: the prepared folder.
      options: prepare.Options.

    Raises:
      ValueError: the first record is not of a known kind, or an option has no meaning here.
    """

    function, unit = staticmethod(existing.go_through), "file"

    def __init__(self, source, records, output_dir, options):
        for name in ("validation_labels", "shards"):
            if getattr(options, name):
                raise InputError(
                    f"--{name} is not for TFRecords, which --source={source} holds: they stay as they are."
                )
        self._records, self._results, self._sha256 = records, {}, options.sha256
        sizes = {path: os.path.getsize(path) for paths in records.values() for path in paths}
        # A file may be empty.
        self._first = next((path for path in records["train"] if sizes[path]), records["train"][0])
        self._keys = existing.keys_of(self._first)
        self._texts = labels.words(labels.text_of(options.words, "words")) if options.words else {}
        self.total = len(sizes)
        self.contents = f"{self._keys.layout}: " + ", ".join(
            f"{len(p):,} {split} files" for split, p in records.items()
        )
        rows = [(os.path.basename(path), size) for path, size in sizes.items()]
        self.plan = prepared_folder.fingerprint(
            source, self._keys.layout, {"sha256": options.sha256}, sorted(self._texts.items()), rows
        )
        self.writes = image_manifest.paths(output_dir, records)

    def todo(self, begun):
        """The files to go through: all, unless the folder was finished."""
        paths = [path for split in self._records.values() for path in split] if begun else []
        return [existing.Task(path, self._keys, self._sha256) for path in paths]

    def size(self, task):
        """A file counts as one."""
        return 1

    def ended(self, task, result):
        """Takes note of what was found in a file."""
        self._results[task.path] = result

    def outcome(self):
        """(the Manifest, dictionary from paths to digests, what else the manifest is to say).

        Raises:
          ValueError: the labels do not make sense.
        """
        parts = {split: [self._results[path] for path in paths] for split, paths in self._records.items()}
        classes, words, label_offset = existing.classes_of(parts, self._keys, os.path.dirname(self._first))
        splits = {
            split: image_manifest.Split.of_files(
                split, paths, [part["offsets"] for part in parts[split]], [part["bytes"] for part in parts[split]]
            )
            for split, paths in self._records.items()
        }
        sha256 = {path: result["sha256"] for path, result in self._results.items() if result["sha256"]}
        texts = [self._texts.get(name, word) for name, word in zip(classes, words)]
        manifest = image_manifest.Manifest(classes, self._keys.image, self._keys.label, label_offset, splits)
        return manifest, sha256, {"texts": texts, "fixed": [], "left_out": [], "unused": {}}
