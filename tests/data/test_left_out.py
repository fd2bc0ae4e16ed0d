"""The table that each preparation ends with."""

from tfbigbatch.data import left_out
from tfbigbatch.data.left_out import Account


def test_a_row_has_what_was_read_used_and_left_out_with_the_reasons():
    lines = left_out.table(
        [
            Account("train", "images", 12_345, {"empty": 2, "cannot be decoded": 1_043, "other": 0}),
            Account("x", "files", 3),
        ]
    )
    assert lines == [
        "                        read         used     left out",
        "  train  images       12,345       11,300        1,045  2 empty; 1,043 cannot be decoded",
        "  x  files                 3            3            0",
    ]


def test_a_sentence_names_the_reasons_if_there_are_any():
    assert str(Account("a.tsv", "rows", 3, {"bad": 1})) == "a.tsv, rows: 3 read, 2 used; left out: 1 bad"
    assert str(Account("a.tsv", "rows", 3, {"bad": 0})) == "a.tsv, rows: 3 read, 3 used"


def test_hidden_files_and_those_of_macos_archives():
    hidden = (".DS_Store", "a/._b.jpg", "__MACOSX/a/b.jpg", ".ipynb_checkpoints/a.jpg", "a/.b/c.txt")
    assert all(map(left_out.is_hidden, hidden))
    assert not any(map(left_out.is_hidden, ("a/b.jpg", "a.b/c.d", "MACOSX/a")))
