import json

import pytest

from tests.helpers import preloaded
from tests.helpers.datasets import bert_sets


@pytest.mark.slow
def test_it_times_all_baselines(tmp_path):
    pytest.importorskip("official.nlp.data.create_pretraining_data")
    (tmp_path / "text.txt").write_text(bert_sets.plain(20))
    outcome = preloaded.run(
        "benchmarks/prepare_bert.py",
        f"--source={tmp_path}/text.txt",
        f"--vocab_file={bert_sets.write_vocabulary(tmp_path)}",
        f"--results={tmp_path}/results.json",
        "--max_seq_length=32",
        "--max_predictions_per_seq=5",
        "--turns=1",
    )
    assert outcome.returncode == 0, outcome.stderr
    results = json.loads((tmp_path / "results.json").read_text())
    assert len(results["median"]) == 6 and results["setting"]["dupe_factor"] == 5
    for name, found in results["turns"].items():
        assert name in outcome.stdout and all(one["sequences"] > 100 and one["seconds"] > 0 for one in found)
