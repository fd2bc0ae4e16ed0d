"""Pieces, and the way back to the text."""

import pytest

from tests.helpers.datasets import translation_sets
from tfbigbatch.data.translation import vocabulary
from tfbigbatch.data.translation.vocabulary import BEGIN, END, PAD, Vocabulary, normalised

pytest.importorskip("sentencepiece")


@pytest.fixture(scope="module")
def learnt():
    return translation_sets.small_vocabulary()


@pytest.mark.parametrize(
    "line",
    [
        "the big dog runs.",
        "  Der\tHund \u00a0läuft\u2028 groß \r\n",
        "<s> </s> <pad> <unk> <0x41>",
        "漢字 ☃ \U0001f600 a\x00b \u200b\ufeff e\u0301",
        "a\u2581b \u2581",
        "''He said: \"no\"'' 3,5 % -- 1/2",
        "",
        " \u3000 ",
    ],
)
def test_a_normalised_line_comes_back_as_it_is(learnt, line):
    [ids] = learnt.ids([normalised(line)])
    assert learnt.text(ids) == normalised(line) == normalised(normalised(line))
    assert all(number > END for number in ids) and bool(ids) == bool(normalised(line))


def test_text_ends_at_its_end_and_has_no_special_pieces(learnt):
    [ids] = learnt.ids(["the dog"])
    assert learnt.text([BEGIN, *ids, END, *ids, PAD]) == "the dog" and learnt.text([END]) == learnt.text([]) == ""


def test_it_is_saved_and_loaded_and_learning_again_gives_the_same(learnt, tmp_path):
    (tmp_path / "vocabulary.model").write_bytes(learnt.content)
    other = Vocabulary.load(str(tmp_path / "vocabulary.model"))
    assert other.content == learnt.content == translation_sets.small_vocabulary().content and len(other) == 340
    assert other.ids(["the dog"]) == learnt.ids(["the dog"])


@pytest.mark.parametrize("content", [b"", b"the dog\nruns\n"])
def test_what_is_no_model_is_refused(tmp_path, content):
    path = tmp_path / "vocab.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="vocab.txt is not a sentencepiece model. Expected the .model file"):
        Vocabulary.load(str(path))
    with pytest.raises(ValueError, match="nowhere cannot be read: No such file"):
        Vocabulary.load(str(tmp_path / "nowhere"))


def test_a_model_of_other_ids_is_refused(tmp_path):
    import sentencepiece

    lines = [translation_sets.sentence(number, 0) for number in range(100)]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_prefix=str(tmp_path / "other"), vocab_size=35, minloglevel=2
    )
    with pytest.raises(ValueError, match=r"other.model: .* have the ids \[-1, 0, 1, 2\]; expected \[0, 1, 2, 3\]"):
        Vocabulary.load(str(tmp_path / "other.model"))


@pytest.mark.parametrize("size, said", [(300, "3.. does not fit|smaller than"), (9999, "too high .9999.")])
def test_a_size_that_does_not_fit_the_text_is_refused(size, said):
    lines = [*(translation_sets.sentence(number, 0) for number in range(20)), "ABCDEFGIJKLMNOPQRSTUVWXYZ0123456789" * 9]
    with pytest.raises(ValueError, match=f"--vocabulary_size={size} does not fit the training text: .*({said})"):
        vocabulary.learn(lines, size)
