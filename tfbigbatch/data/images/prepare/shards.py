"""What goes into which TFRecord file, and writing one of them: whole or not at all."""

import contextlib
import dataclasses
import hashlib
import json
import os

import numpy as np

from tfbigbatch.data.images.prepare import check, layouts, tree
from tfbigbatch.data.records import tfrecord
from tfbigbatch.data.records.prepared_folder import PROGRESS
from tfbigbatch.errors import InputError
from tfbigbatch.utils.files import atomic_write

IMAGE_KEY, LABEL_KEY, LABEL_OFFSET = "image/encoded", "image/class/label", 1
# Small sets are prepared in parallel too: up to so many shards, of so many images or more.
_FEWEST, _IMAGES_EACH = 8, 1000


@dataclasses.dataclass(frozen=True, eq=False)
class Shard:
    """A TFRecord file to write.

    Attributes:
      name: of the file, train-00000-of-00128.
      split: 'train' or 'validation'.
      folder: where it goes.
      files: tree.Tree of its images, in their order.
      labels: int64 array of [files], the classes' numbers.
      classes, texts: tuples of all classes' names, and what they are called in words.
    """

    name: str
    split: str
    folder: str
    files: tree.Tree
    labels: np.ndarray
    classes: tuple
    texts: tuple

    @property
    def path(self):
        """Where the file lies once it is whole."""
        return os.path.join(self.folder, self.name)

    @property
    def record(self):
        """Where it is written down what the file holds, once it is whole."""
        return os.path.join(self.folder, PROGRESS, f"{self.name}.json")


def counts(source, asked, megabytes):
    """Dictionary from splits to their number of shards.

    Args:
      source: layouts.Source.
      asked: dictionary from splits to numbers, of those that were asked for.
      megabytes: about how large a shard of another split is, in 10^6 bytes.

    Raises:
      ValueError: a number was asked for that the split cannot have, or of a split that is not there.
    """
    for split in asked.keys() - source.splits.keys():
        raise InputError(f"--shards={split}:{asked[split]}: there is no such split here. {_known(source)}")
    found = {}
    for split, images in source.splits.items():
        size = int(np.maximum(images.files.sizes, 0).sum())
        fewest = min(_FEWEST, len(images.labels) // _IMAGES_EACH)
        found[split] = asked.get(split) or max(1, fewest, -(-size // int(megabytes * 1e6)))
        if not 1 <= found[split] <= len(images.labels):
            raise InputError(f"--shards={split}:{found[split]}: expected 1 to {len(images.labels):,}, its images.")
    return found


def _known(source):
    return f"It has {' and '.join(source.splits)}."


def plan(source, folder, numbers, seed):
    """The Shards of a source; the images of a split are spread over its shards in a seeded order.

    Args:
      source: layouts.Source.
      folder: where they go.
      numbers: dictionary from splits to their number of shards.
      seed: of the order.
    """
    shards = []
    for split, images in source.splits.items():
        order = np.array(layouts.order(images.files.names, seed, split), np.int64)
        for number, indices in enumerate(np.array_split(order, numbers[split])):
            name = f"{split}-{number:05d}-of-{numbers[split]:05d}"
            files = images.files.only(indices)
            shards.append(Shard(name, split, folder, files, images.labels[indices], source.classes, source.texts))
    return shards


def write(shard, tick):
    """Writes a shard, and then its record beside it: what it holds, as `done` returns it.

    Args:
      shard: Shard.
      tick: called after each image; what it raises ends the writing, and nothing is left under the shard's name.

    Raises:
      ValueError: the folder cannot be written.
    """
    digest, fixed, left_out = hashlib.sha256(), [], []
    part = os.path.join(shard.folder, PROGRESS, f"{shard.name}.part")
    try:
        with open(part, "wb") as file:
            for index, name in enumerate(shard.files.names):
                where = {"name": shard.files.prefix + name}
                try:
                    image = check.check(_bytes(shard.files, index))
                except check.BadImage as error:
                    left_out.append({**where, "reason": str(error)})
                else:
                    frame = tfrecord.framed(_example(shard, index, image))
                    file.write(frame)
                    digest.update(frame)
                    if image.fixed:
                        fixed.append({**where, "reason": image.fixed})
                tick()
            file.flush()
            os.fsync(file.fileno())
            size = file.tell()
        os.replace(part, shard.path)
        record = {
            "images": len(shard.files.names),
            "records": len(shard.files.names) - len(left_out),
            "bytes": size,
            "sha256": digest.hexdigest(),
            "fixed": fixed,
            "left_out": left_out,
        }
        atomic_write(shard.record, lambda file: file.write(json.dumps(record, indent=1).encode()))
    except OSError as error:
        raise InputError(f"{shard.path} cannot be written: {error.strerror or error}.") from None
    finally:
        with contextlib.suppress(OSError):
            os.remove(part)
    return record


def done(shard):
    """What a whole shard holds, as a dictionary; None where it is not there, or not of the size it was written with."""
    try:
        with open(shard.record, encoding="utf-8") as file:
            record = json.load(file)
        whole = os.path.getsize(shard.path) == record["bytes"]
    except (OSError, ValueError):
        return None
    return record if whole else None


def _bytes(files, index):
    try:
        return files.read(index)
    except OSError as error:
        raise check.BadImage(f"{check.UNREADABLE}: {error.strerror or error}") from None


def _example(shard, index, image):
    """The serialized example of an image: the features of the standard ImageNet records but its boxes."""
    number = int(shard.labels[index])
    return tfrecord.example(
        {
            IMAGE_KEY: image.encoded,
            "image/format": b"JPEG",
            "image/height": image.height,
            "image/width": image.width,
            "image/colorspace": image.colorspace.encode(),
            "image/channels": image.channels,
            LABEL_KEY: number + LABEL_OFFSET,
            "image/class/synset": shard.classes[number].encode(errors="surrogateescape"),
            "image/class/text": shard.texts[number].encode(),
            "image/filename": os.path.basename(shard.files.names[index]).encode(errors="surrogateescape"),
        }
    )
