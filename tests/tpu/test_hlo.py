import os

from tfbigbatch.tpu import hlo

with open(os.path.join(os.path.dirname(__file__), "sample_program.txt"), encoding="utf-8") as file:
    PROGRAM = file.read()

OUT_OF_MEMORY = """RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 22.00G of 15.48G hbm.

Largest program allocations in hbm:

  1. Size: 512.00M
     Operator: op_name="training/encoder/layer_3/Softmax"
     Shape: bf16[16,16,512,512]{3,2,1,0}
     ==========================

  2. Size: 1.50G
     Operator: op_name="training/logits/MatMul" source_file="a.py" source_line=3
     Shape: f32[16,76,30522]{2,1,0}
     ==========================

  3. Size: 12.0K
     Shape: f32[3072]{0}
"""


def test_collectives_are_counted_with_their_bytes():
    # Of a start's operands and results, half.
    assert [tuple(each.values()) for each in hlo.collectives(PROGRAM)] == [
        ("all-reduce", 2, 4 * 16 * 4 + 16 * 2 + 10),
        ("all-gather", 1, 12),
    ]
    assert hlo.collectives("nothing") == []


def test_float64_is_counted():
    assert hlo.float64_count(PROGRAM) == 1


def test_want_of_memory_is_told_from_other_errors():
    assert hlo.out_of_memory(OUT_OF_MEMORY) == (22 * 2**30, int(15.48 * 2**30))
    other = "the total memory required for HLO temporaries (1.05T) exceeds available HBM (7.48G)."
    assert hlo.out_of_memory(other) == (int(1.05 * 2**40), int(7.48 * 2**30))
    assert hlo.out_of_memory("INVALID_ARGUMENT: no such thing") is None


def test_the_largest_allocations_are_named_by_layer():
    found = hlo.allocations(OUT_OF_MEMORY)
    assert [each["name"] for each in found] == ["training/logits/MatMul", "training/encoder/layer_3/Softmax", ""]
    assert found[0]["bytes"] == int(1.5 * 2**30) and found[0]["shape"].startswith("f32[16,76,30522]")
