from tfbigbatch.data import left_out


def test_a_sentence_names_the_reasons_if_there_are_any():
    assert left_out.account("a.tsv", "rows", 1234, {"bad": 1, "empty": 0}) == (
        "a.tsv, rows: 1,234 read, 1,233 used; left out: 1 bad"
    )
    assert left_out.account("a.tsv", "rows", 3, {"bad": 0}) == "a.tsv, rows: 3 read, 3 used"


def test_hidden_files_and_those_of_macos_archives():
    hidden = (".DS_Store", "a/._b.jpg", "__MACOSX/a/b.jpg", ".ipynb_checkpoints/a.jpg", "a/.b/c.txt")
    assert all(map(left_out.is_hidden, hidden))
    assert not any(map(left_out.is_hidden, ("a/b.jpg", "a.b/c.d", "MACOSX/a")))
