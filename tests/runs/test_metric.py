from tfbigbatch.runs.metric import Metric

ACCURACY, PERPLEXITY = Metric("accuracy"), Metric("perplexity", higher_is_better=False)


def test_values_are_shown_as_people_say_them():
    assert ACCURACY.shown(0.98765) == "98.77%" and PERPLEXITY.shown(116.456) == "116.46"
    assert PERPLEXITY.shown(3.5228e24) == "3.5e+24"
    assert ACCURACY.shown_target(0.98) == "98%" and ACCURACY.shown_target(0.985) == "98.5%"
    assert PERPLEXITY.shown_target(120.0) == "120"


def test_each_direction_has_its_best():
    assert ACCURACY.reaches(0.98, 0.98) and not ACCURACY.reaches(0.97, 0.98)
    assert PERPLEXITY.reaches(110.0, 120.0) and not PERPLEXITY.reaches(121.0, 120.0)
    assert ACCURACY.best([0.1, 0.9]) == 0.9 and PERPLEXITY.best([1.0, 9.0]) == 1.0
    assert sorted([0.1, None, 0.9], key=ACCURACY.order) == [0.9, 0.1, None]
    assert sorted([9.0, None, 1.0], key=PERPLEXITY.order) == [1.0, 9.0, None]
