"""Made-up outcomes of a check."""

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
        "examples": 1_281_167,
        "updates": 1000,
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
        "loops": 0,
        "uncounted_loops": 0,
    }
    return {**found, **fields}
