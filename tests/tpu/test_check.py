"""The report on a check."""

from tfbigbatch.tpu import check

GIB = 2**30


def fitting(**fields):
    """What `check.check` gives of a step that fits; round numbers, of no real model."""
    found = {
        "config": "experiments/imagenet/resnet50_lars.py:32k",
        "overrides": [],
        "phase": 1,
        "phases": 1,
        "topology": "v3:4x4",
        "accelerator_type": "v3-32",
        "chips": 16,
        "replicas": 32,
        "batch_size": 4096,
        "per_replica_batch": 128,
        "accumulation_steps": 1,
        "weights": 25_000_000,
        "variables": 400,
        "state_bytes": 200_000_000,
        "inputs": ["uint8[128, 224, 224, 3]", "int32[128]"],
        "findings": [],
        "trace_seconds": 30.0,
        "lower_seconds": 9.0,
        "compiles": True,
        "fits": True,
        "seconds": 100.0,
        "peak_bytes": 4 * GIB,
        "usable_bytes": 16 * GIB,
        "flops": 128 * 24e9,
        "bytes": 0.6e9 + 128 * 0.3e9,
        "collectives": [{"kind": "all-reduce", "count": 1, "bytes": 100_000_000}],
        "float64_results": 0,
        "uncounted_loops": 0,
    }
    return {**found, **fields}


def text(**fields):
    return "\n".join(check.lines(fitting(**fields)))


def test_what_fits():
    found = text()
    assert "v3:4x4 (v3-32): 16 chips, 32 replicas" in found
    assert "4,096 global = 128 per replica x 1 accumulation x 32 replicas" in found
    assert "fits         yes: 4.00 GB of 16.00 GB usable (25%)" in found
    assert "1 all-reduce of 95.4 MB" in found and "nothing on the host" in found


def test_what_does_not_fit_names_the_largest_allocations():
    allocations = [{"bytes": 3 * GIB, "name": "training/logits/MatMul", "shape": "f32[16,76,30522]"}]
    found = text(fits=False, needed_bytes=20 * GIB, flops=None, allocations=allocations)
    assert "NO: 20.00 GB of 16.00 GB" in found and "3.00 GB  training/logits/MatMul  f32[16,76,30522]" in found
    assert "accumulation_steps=2" in found
    assert "model.recompute" not in found
    assert "model.recompute=true needs less" in text(fits=False, needed_bytes=20 * GIB, flops=None, recompute=False)


def test_errors_and_findings_have_their_lines():
    wrong = text(compiles=False, error="no kernel for StringJoin", flops=None)
    assert "compiles     NO: no kernel for StringJoin" in wrong
    finding = {"kind": "dynamic shape", "operation": "Where", "name": "w", "line": "a.py:3: tf.where(x)", "times": 2}
    found = text(findings=[finding], float64_results=3)
    assert "dynamic shape: Where x 2, a.py:3: tf.where(x)" in found and "float64: 3 results" in found
    assert "nothing on the host" not in found
    assert "1 of its loops are counted with one iteration" in text(loops=2, uncounted_loops=1)
