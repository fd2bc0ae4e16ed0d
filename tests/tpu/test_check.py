from tests.helpers.made_checks import GIB, fitting
from tfbigbatch.tpu import check


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
