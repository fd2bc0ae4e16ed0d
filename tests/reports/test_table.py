from tests.helpers.made_rows import row
from tfbigbatch.reports.summary import summarise
from tfbigbatch.reports.table import results_table
from tfbigbatch.runs.metric import Metric

ACCURACY = Metric("accuracy")


def lines(*rows, metric=ACCURACY, **options):
    made = results_table(summarise(rows, metric, options.get("target")), metric, **options).markdown()
    assert len({len(line) for line in made}) == 1
    return made


def test_it_is_markdown_with_mean_and_spread():
    made = lines(row("small", 0.98, 0.96), row("naive", 0.6, 0.7))
    assert "mean ± s.d. of 2 seeds" in made[0] and "seeds |" not in made[0].replace("2 seeds |", "")
    assert set(made[1]) == set("|-: ") and "97.00% ± 1.41%" in made[2]
    assert "s.d." not in lines(row("small", 0.98))[0]


def test_divergence_and_what_is_missing_show():
    made = lines(
        row("all gone", "diverged"),
        row("one gone", 0.9, "diverged"),
        row("partial", 0.98, 0.96, "running"),
        row("going", "running", step=9),
        row("cut off", "preempted", step=5),
        row("waiting", "not started", "not started"),
    )
    assert "seeds" in made[0]
    for line, words in zip(
        made[2:],
        (
            ("diverged",),
            ("1 of 2 diverged",),
            ("97.00%", "2 of 3"),
            ("running at 45%", "0 of 1"),
            ("stopped at 25%",),
            ("not started", "0 of 2"),
        ),
    ):
        assert all(word in line for word in words), line


def test_the_target_has_a_column():
    made = lines(row("small", 0.98), row("waiting", "not started"), target=0.99, heading="method")
    assert "| method " in made[0] and "steps to 99%" in made[0]
    assert "never" in made[2] and "never" not in made[3]
