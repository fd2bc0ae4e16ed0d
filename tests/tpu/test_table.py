import json
import os

import pytest

from tests.helpers.made_checks import fitting
from tfbigbatch import experiment
from tfbigbatch.tpu import table, topologies

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def test_a_page_gets_its_table():
    page = f"before\n{table.BEGIN}\nold\n{table.END}\nafter\n"
    too_large = fitting(fits=False, needed_bytes=2**35)
    # What the compiler tells of a program that it made, and of no other.
    for name in ("flops", "bytes", "collectives", "uncounted_loops", "float64_results"):
        del too_large[name]
    written = table.written_into(page, [fitting(), too_large])
    assert written.startswith("before\n") and written.endswith("\nafter\n") and "old" not in written
    assert (
        "| 4,096 = 128 x 1 x 32 | yes | 4.00 GB of 16.00 GB | 3,072 | 36.32 GB | 1 all-reduce of 95.4 MB |" in written
    )
    assert "| no | 32.00 GB of 16.00 GB |" in written
    assert table.written_into(written, [fitting()]) == table.written_into(page, [fitting()])
    variant = table.written_into(page, [fitting(overrides=["model.layers=12"], phases=2, phase=2)])
    assert "| experiments/imagenet/resnet50_lars.py:32k, model.layers=12, phase 2 |" in variant
    with pytest.raises(ValueError, match="lacks the lines"):
        table.written_into("nothing", [])


def test_checks_are_kept_by_name(tmp_path):
    assert table.name("experiments/bert/lamb.py:512", "v3-32", 2) == "bert_lamb_512_phase2_v3-32"
    assert table.name("experiments/bert/lamb.py:512", "v3-32", 1, "base") == "bert_lamb_512_base_phase1_v3-32"
    assert table.name("experiments/digits/lstm_legw.py", "v3-16") == "digits_lstm_legw_v3-16"
    (tmp_path / "one.json").write_text(json.dumps(fitting()))
    assert table.read(str(tmp_path)) == {"one": fitting()}


def test_the_recipes_exist_and_divide():
    for recipe in table.RECIPES:
        config = experiment.load(os.path.join(ROOT, recipe.config))
        assert bool(recipe.variant) == bool(recipe.overrides), recipe
        experiment.override(config, recipe.overrides)
        batch_size = experiment.phases(config)[recipe.phase - 1].batch_size
        assert batch_size % topologies.parse(recipe.topology).replicas == 0, recipe


def test_no_recipe_stands_there_twice():
    slices = [topologies.parse(each.topology).accelerator_type for each in table.RECIPES]
    names = [table.name(each.config, slice_, each.phase, each.variant) for each, slice_ in zip(table.RECIPES, slices)]
    assert len(set(names)) == len(names)


def test_the_page_shows_what_is_kept():
    with open(os.path.join(ROOT, "results", "measurements", "tpu.md"), encoding="utf-8") as file:
        page = file.read()
    kept = table.read(os.path.join(ROOT, "results", "tpu"))
    assert page == table.written_into(page, kept.values()), "run: python tools/tpu_table.py --only="
