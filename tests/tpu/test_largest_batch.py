import pytest

from tfbigbatch.tpu import largest_batch


@pytest.mark.parametrize("limit", [0, 1, 5, 64, 100, 1000])
def test_the_search_ends_near_the_limit(limit):
    tried = []

    def fits(number):
        tried.append(number)
        return number <= limit

    found = largest_batch.largest(fits, 64, 512, steps=12)
    least = min(limit, 512)
    assert found <= least and least - found <= max(1, least // 8)
    assert len(tried) == len(set(tried)) and all(1 <= number <= 512 for number in tried)


def test_the_search_keeps_to_its_trials():
    tried = []
    largest_batch.largest(lambda number: tried.append(number) or True, 1, 10**9, steps=3)
    assert tried == [1, 2, 4]


@pytest.mark.parametrize(
    "micro_batch, batch_size, replicas, expected",
    [
        (64, 32768, 512, (64, 1, 32768)),
        (48, 32768, 512, (32, 2, 32768)),
        (5, 96, 8, (4, 3, 96)),
        (0, 96, 8, (0, 0, 0)),
        (4, 4, 8, (0, 0, 0)),
    ],
)
def test_the_accumulation_reaches_the_global_batch(micro_batch, batch_size, replicas, expected):
    assert largest_batch.suggestion(micro_batch, batch_size, replicas) == expected
