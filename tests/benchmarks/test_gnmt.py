"""The benchmark of GNMT: what is timed, and one smoke run."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BENCH = os.path.join(ROOT, "benchmarks")
SIZES = {"vocabulary_size": 20, "hidden_units": 8, "encoder_layers": 3, "decoder_layers": 3}


@pytest.mark.slow
def test_the_plain_network_has_our_matrices(monkeypatch):
    monkeypatch.syspath_prepend(BENCH)
    from gnmt_baselines import BASELINES

    networks = {name: make(**SIZES, dropout=0.1, source_length=5, target_length=4) for name, make in BASELINES.items()}
    shapes = {
        name: sorted(tuple(variable.shape) for variable in network.trainable_variables if variable.shape.rank == 2)
        for name, network in networks.items()
    }
    assert shapes["tfbigbatch"] == shapes["plain_keras"]
    inputs = {
        "source_ids": np.array([[3, 4, 5, 0, 0], [6, 7, 8, 9, 3]], np.int32),
        "source_lengths": np.array([3, 5], np.int32),
        "target_ids": np.array([[1, 4, 5, 0], [1, 7, 8, 9]], np.int32),
    }
    for network in networks.values():
        logits = network(inputs).numpy()
        assert logits.shape == (2, 4, 20) and np.isfinite(logits).all()


def test_buckets_hold_each_pair_once_whatever_their_shapes(monkeypatch):
    monkeypatch.syspath_prepend(BENCH)
    import gnmt_buckets

    from tfbigbatch.data.translation import length_buckets

    lengths = gnmt_buckets.lengths(None, 60, 30)
    assert lengths.shape == (60, 2) and lengths.min() >= 2 and lengths.max() <= 30
    places = []
    for most in (4, 1):
        shapes = length_buckets.choose(lengths, most)
        batches = gnmt_buckets.batches(lengths, shapes, 10, 50, begin=1, end=2)
        found = [
            (int(size), int(weight.sum()))
            for inputs, _, weights in batches
            for size, weight in zip(inputs["source_lengths"], weights)
        ]
        assert sorted(found) == sorted(map(tuple, lengths.tolist()))
        for inputs, labels, _ in batches:
            assert (inputs["source_ids"].shape[1], labels.shape[1]) in shapes
            np.testing.assert_array_equal((inputs["source_ids"] > 0).sum(axis=1), inputs["source_lengths"])
            assert ((labels == 2).sum(axis=1) == 1).all() and (inputs["target_ids"][:, 0] == 1).all()
        places.append(sum(labels.size for _, labels, _ in batches))
    assert places[0] < places[1] == 60 * lengths[:, 1].max()


@pytest.mark.slow
def test_a_smoke_run_times_training_buckets_and_decoding(tmp_path):
    results = tmp_path / "gnmt.json"
    outcome = subprocess.run(
        [
            sys.executable,
            os.path.join(BENCH, "gnmt.py"),
            *("--vocabulary_size=20", "--hidden_units=8", "--encoder_layers=2", "--decoder_layers=2", "--length=4"),
            *("--bucketed_batch_size=2", "--batches=2", "--most_shapes=2"),
            *("--batch_size=2", "--beam_size=1,2", "--decode_batch_size=2", "--repeats=1", f"--results={results}"),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert outcome.returncode == 0, outcome.stderr
    found = json.loads(results.read_text())
    assert [row["batch_size"] for row in found["training"]] == [2]
    assert all(set(row["tokens_per_second"]) == {"tfbigbatch", "plain_keras"} for row in found["training"])
    [row] = found["buckets"]
    assert row["pairs"] == 4 and set(row["tokens_per_second"]) == set(row["padding"]) == {"bucketed", "padded"}
    assert [row["beam_size"] for row in found["decoding"]] == [1, 2]
