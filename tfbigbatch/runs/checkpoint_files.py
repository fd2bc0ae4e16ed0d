"""The files of a run's checkpoints, by what lies in the folder: a list of them may be lost or damaged itself."""

import glob
import os
import re

import tensorflow as tf

from tfbigbatch.utils.files import writing_errors

NAME = "step"
_INDEX = re.compile(rf"{NAME}-(\d+)\.index$")
_SET_ASIDE = "damaged."


def paths(directory):
    """The checkpoints in a folder, the newest first; of a save that was cut short there is no index yet."""
    names = os.listdir(directory) if os.path.isdir(directory) else []
    steps = [int(found.group(1)) for found in map(_INDEX.match, names) if found]
    return [os.path.join(directory, f"{NAME}-{step}") for step in sorted(steps, reverse=True)]


def step_of(path):
    """The update after which a checkpoint was saved."""
    return int(path.rpartition("-")[2])


def set_aside(path):
    """Renames a checkpoint's files, so that nothing takes it for one and nothing of it is lost.

    Returns:
      The new path.
    """
    directory, name = os.path.split(path)
    with writing_errors(directory):
        for file in glob.glob(f"{glob.escape(path)}.*"):
            os.replace(file, os.path.join(directory, _SET_ASIDE + os.path.basename(file)))
    return os.path.join(directory, _SET_ASIDE + name)


def remove(path):
    """Removes a checkpoint's files: the index first, without which the others are none."""
    for file in sorted(glob.glob(f"{glob.escape(path)}.*"), key=lambda file: not file.endswith(".index")):
        os.remove(file)


def write_list(directory, newest_first):
    """Puts TensorFlow's file 'checkpoint' right, from which it knows the newest and what it may remove."""
    oldest_first = newest_first[::-1]
    try:
        state = tf.train.get_checkpoint_state(directory)
    # TensorFlow forgives a text that it cannot parse, but not an empty one, nor bytes that are no text.
    except ValueError:
        state = None
    if state is not None and list(state.all_model_checkpoint_paths) == oldest_first:
        return
    times = [os.path.getmtime(f"{path}.index") for path in oldest_first]
    with writing_errors(directory):
        tf.compat.v1.train.update_checkpoint_state(
            directory,
            newest_first[0],
            all_model_checkpoint_paths=oldest_first,
            all_model_checkpoint_timestamps=times,
            # What is older than this, a manager never removes.
            last_preserved_timestamp=times[0] - 1.0,
        )


def left_over(directory):
    """The names in a folder without a checkpoint of what a run's checkpoints left there, sorted.

    A first save that was cut short leaves data without an index, and nothing is lost by it.
    """
    names = sorted(os.listdir(directory)) if os.path.isdir(directory) else []
    return names if "checkpoint" in names or any(name.startswith(_SET_ASIDE) for name in names) else []
