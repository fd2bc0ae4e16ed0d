import pytest

from tfbigbatch.training.batches import BatchArithmetic


def test_the_arithmetic_is_said():
    lines = BatchArithmetic(512, 4, 2, 1437).lines(112)
    assert "512 global = 64 per replica x 4 accumulation x 2 replicas" in lines[0]
    assert "112 steps = 39.91 epochs of 1,437 examples (2.807 steps each); 57,344 examples seen" in lines[1]


@pytest.mark.parametrize(
    "arguments, said",
    [
        ((500, 4, 2, 1437), "does not divide by 4 accumulation steps x 2 replicas = 8. The nearest that does: 496"),
        ((2048, 1, 1, 1437), "batch_size=2048 is larger than the training set of 1437 examples"),
        ((0, 1, 1, 1437), "both are at least 1"),
    ],
)
def test_what_cannot_be_split_is_refused(arguments, said):
    with pytest.raises(ValueError, match=said):
        BatchArithmetic(*arguments)
