import math

import pytest

from tfbigbatch.tasks.scores.bleu import bleu

REFERENCES = ["The cat sat on the mat.", "A dog barked at the red car."]


def test_equal_texts_score_100_and_the_signature_says_how():
    found = bleu(REFERENCES, REFERENCES)
    assert found["score"] == pytest.approx(100.0)
    assert found["signature"].startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")


def test_the_formula():
    # Tokens: 7 and 8 of the references, 7 and 6 of the hypotheses.
    found = bleu(["The cat lay on the mat.", "A dog barked at the car."], REFERENCES)
    precisions = [6 + 7, 4 + 5, 2 + 3, 1 + 2], [14, 12, 10, 8]
    mean = math.exp(sum(math.log(right / all_) for right, all_ in zip(*precisions)) / 4)
    assert found["score"] == pytest.approx(100 * math.exp(1 - 15 / 14) * mean)


def test_mlperfs_does_not_see_capitals():
    capitals = [text.upper() for text in REFERENCES]
    assert bleu(capitals, REFERENCES)["score"] < 50
    found = bleu(capitals, REFERENCES, lowercase=True, tokenize="intl")
    assert found["score"] == pytest.approx(100.0)
    assert "case:lc" in found["signature"] and "tok:intl" in found["signature"]


@pytest.mark.parametrize(
    "hypotheses, references, options, message",
    [
        (["a"], ["a", "b"], {}, "1 hypotheses and 2 references; expected one reference for each"),
        ([], [], {}, "0 hypotheses and 0 references"),
        (["a"], ["a"], {"tokenize": "14a"}, "tokenize='14a': expected one of sacrebleu's, .*13a"),
    ],
)
def test_bad_input_is_refused(hypotheses, references, options, message):
    with pytest.raises(ValueError, match=message):
        bleu(hypotheses, references, **options)
