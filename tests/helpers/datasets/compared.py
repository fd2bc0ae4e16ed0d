"""What tests of prepared folders and of datasets compare."""

import hashlib
import os

import tensorflow as tf

from tfbigbatch.data.records.shards import PROGRESS


def digests(folder):
    """The digest of each file of a prepared folder, by its name."""
    found = {}
    for name in sorted(set(os.listdir(folder)) - {PROGRESS}):
        with open(os.path.join(folder, name), "rb") as file:
            found[name] = hashlib.sha256(file.read()).hexdigest()
    return found


def on_host(batches):
    return [tf.nest.map_structure(lambda tensor: tensor.numpy(), batch) for batch in batches]


def train(data, first=0, last=14, *, seed=0, host=0, hosts=1, replicas=None):
    """A host's training batches of 16 of the steps [first, last)."""
    context = tf.distribute.InputContext(hosts, host, replicas or hosts)
    return on_host(data.training_batches(context, batch_size=16, seed=seed, first_step=first, last_step=last))
