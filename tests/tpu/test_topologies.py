import pytest

from tfbigbatch.tpu import topologies


@pytest.mark.parametrize(
    "text, name, chips, replicas, accelerator_type",
    [
        ("v3:32x32", "v3:32x32", 1024, 2048, "v3-2048"),
        ("v3-2048", "v3:32x32", 1024, 2048, "v3-2048"),
        ("v4-8", "v4:2x2x1", 4, 4, "v4-8"),
        ("v4:2x4", "v4:2x4x1", 8, 8, "v4-16"),
        ("v5litepod-8", "v5e:2x4", 8, 8, "v5litepod-8"),
        ("v5p:128", "v5p:4x4x8", 128, 128, "v5p-256"),
    ],
)
def test_a_slice_by_any_of_its_names(text, name, chips, replicas, accelerator_type):
    found = topologies.parse(text)
    assert (found.name, found.chips, found.replicas) == (name, chips, replicas)
    assert found.accelerator_type == accelerator_type


@pytest.mark.parametrize(
    "text, said",
    [
        *((text, "expected a slice of v2, v3, v4") for text in ("v3", "v9-8", "v3-4x4")),
        ("v3-7", "a power of two of cores"),
        ("v5e:24", "a power of two of chips; at most 256"),
        *((text, "a grid of 2 dimensions") for text in ("v3:4x4x4", "v3:0x4", "v3:64x64")),
    ],
)
def test_what_is_no_slice_is_told(text, said):
    with pytest.raises(ValueError, match=said):
        topologies.parse(text)


def test_libtpus_options_and_chips():
    assert topologies.parse("v3-8").libtpu_options == {}
    assert topologies.parse("v4-8").libtpu_options == {"chip_config_name": "megacore"}
    assert topologies.parse("v5e:1").libtpu_options == {"chips_per_host_bounds": [1, 1, 1]}
    assert topologies.with_chips("v3", 64).grid == (8, 8)
    assert topologies.with_chips("v5e", 512) is None and topologies.with_chips("v3", 12) is None
