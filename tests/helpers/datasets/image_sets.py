"""Small images and the layouts that sets of them come in, made up for the tests."""

import io
import os
import tarfile
import time

import numpy as np
import PIL.Image

from tfbigbatch.errors import InputError

CLASSES = ("n01440764", "n01443537", "n02084071")
BAD = b"\xff\xd8\xff\xe0 no JPEG at all"


def picture(seed=0, size=(20, 12)):
    """An RGB picture of blocks, width and height as given."""
    blocks = np.random.default_rng(seed).integers(0, 256, (3, 4, 3), np.uint8)
    return PIL.Image.fromarray(blocks).resize(size, PIL.Image.Resampling.NEAREST)


def encoded(image=None, kind="JPEG", **options):
    """A picture's bytes."""
    file = io.BytesIO()
    (picture() if image is None else image).save(file, kind, **options)
    return file.getvalue()


def files_of(split, each, ending="jpg"):
    """{'split/class/name': JPEG}, `each` images of each class, all different."""
    return {
        f"{split}/{name}/{name}_{number}.{ending}": encoded(picture(1000 * place + number))
        for place, name in enumerate(CLASSES)
        for number in range(each)
    }


def write_folder(folder, files):
    """Writes a dictionary from names to bytes; gives the folder as str."""
    for name, content in files.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)
    return str(folder)


def tar_of(files, mode="w"):
    """The bytes of a tar of a dictionary from names to bytes."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return out.getvalue()


def tiny_imagenet(each=3):
    """The files of tiny-imagenet's layout; its lists are of more classes and images than there are."""
    train = {
        f"train/{name}/images/{name}_{number}.JPEG": encoded(picture(1000 * place + number))
        for place, name in enumerate(CLASSES)
        for number in range(each)
    }
    boxes = {f"train/{name}/{name}_boxes.txt": b"x" for name in CLASSES}
    val = {f"val/images/val_{number}.JPEG": encoded(picture(5000 + number)) for number in range(6)}
    lines = [f"val_{number}.JPEG\t{CLASSES[number % 3]}\t0\t0\t62\t62" for number in range(9)]
    texts = {
        "val/val_annotations.txt": "\n".join(lines).encode(),
        "wnids.txt": "\n".join([*CLASSES, "n09999999"]).encode(),
    }
    return {**train, **boxes, **val, **texts}


def ilsvrc(each=3, val=6):
    """ImageNet's tars unpacked: (the files, the class of each validation image by its name)."""
    names = [f"ILSVRC2012_val_{number:08d}.JPEG" for number in range(1, val + 1)]
    files = {f"val/{name}": encoded(picture(5000 + number)) for number, name in enumerate(names)}
    return {**files_of("train", each, "JPEG"), **files}, {name: CLASSES[at % 3] for at, name in enumerate(names, 1)}


def dies(task, tick):
    """A task for a worker that does not survive it."""
    os._exit(9)


def fails(task, tick):
    """A task that cannot be done; the others go on until they are told to stop."""
    if task == 0:
        raise InputError("task 0 cannot be done")
    while True:
        tick()
        time.sleep(0.01)
