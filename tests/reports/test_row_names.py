import pytest

from tfbigbatch.reports.row_names import row_names


@pytest.mark.parametrize(
    "directories, batch_sizes, names",
    [
        ([["runs/small"], ["runs/legw"]], [32, 512], ["small", "legw"]),
        ([["runs/legw"]], [512], ["legw"]),
        # Seeds, in folders of their own or at the end of a name.
        ([["runs/legw/seed-0", "runs/legw/seed-1"]], [512], ["legw"]),
        ([["r/a_0", "r/a_1"], ["r/b_seed3"]], [32, 32], ["a", "b"]),
        ([["r/a/10", "r/a/11"], ["r/b/10", "r/b/11"]], [32, 32], ["a", "b"]),
        # The batch size has a column: these are one line of a plot.
        ([["r/legw_512"], ["r/legw-b1024"], ["r/legw/batch-4k"]], [512, 1024, 4096], ["legw", "legw", "legw"]),
        ([["r/legw_512"], ["r/lamb_512"]], [512, 512], ["legw_512", "lamb_512"]),
        # Names without anything else stay as they are.
        ([["r/512"], ["r/1024"]], [512, 1024], ["512", "1024"]),
        ([["r/seed-0"], ["r/seed-1"]], [512, 512], ["seed-0", "seed-1"]),
        ([["r/0", "r/1"], ["r/2"]], [32, 32], ["0", "2"]),
        ([["a/x"], ["a"]], [512, 512], ["a/x", "a"]),
    ],
)
def test_rows_are_named_by_their_folders(directories, batch_sizes, names):
    assert row_names(directories, batch_sizes) == names
