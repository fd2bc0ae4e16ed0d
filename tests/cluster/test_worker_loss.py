import pytest
import tensorflow as tf

from tfbigbatch.cluster.worker_loss import worker_loss
from tfbigbatch.errors import WorkerLost


def test_in_a_cluster_a_broken_connection_is_a_lost_worker(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", "{}")
    with pytest.raises(WorkerLost, match="UnavailableError: Connection reset.*Start all workers again"):
        with worker_loss():
            raise tf.errors.UnavailableError(None, None, "Connection reset\nmore")
    with pytest.raises(tf.errors.ResourceExhaustedError), worker_loss():
        raise tf.errors.ResourceExhaustedError(None, None, "no memory")


def test_in_one_process_errors_pass(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with pytest.raises(tf.errors.UnavailableError), worker_loss():
        raise tf.errors.UnavailableError(None, None, "a file system")
