"""A text in, a text out, by the network of a run that this module trains for two updates."""

import json
import os

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.datasets import translation_sets
from tests.helpers.datasets.translation_sets import write
from tests.helpers.preloaded import tfbigbatch
from tfbigbatch import train
from tfbigbatch.cli.translate import Translator
from tfbigbatch.config import new_config
from tfbigbatch.data.translation import fake
from tfbigbatch.data.translation.vocabulary import BEGIN, END
from tfbigbatch.models import gnmt
from tfbigbatch.run_directory import load_gnmt
from tfbigbatch.run_directory.metrics_log import read_rows
from tfbigbatch.tasks.scores import bleu

pytest.importorskip("sentencepiece")
# The run and a beam search in each process take a minute.
pytestmark = pytest.mark.slow
# The words of the made-up pairs that the run trains on.
LINES = ["ba ce di fo", "", "gu " * 20 + "ha", "je ki", " \u00a0 ", "na"]


def small_config():
    config = new_config("gnmt")
    config.model.update({"hidden_units": 8, "embedding_units": 8, "encoder_layers": 1, "decoder_layers": 2})
    # So that random weights, and not the tokens' frequencies, decide.
    config.model.initial_scale, config.model.output_bias = 1.0, "uniform"
    config.data.update({"most_shapes": 1, "beam_size": 2, "max_decoded": 5})
    config.batch_size = config.schedule.batch_size = 16
    config.schedule.learning_rate = 0.001
    config.evaluation_batch_size = 20
    config.duration = "2 steps"
    config.evaluate_on = "test"
    config.checkpoint_every = config.log_every = "1 steps"
    config.evaluate_every = "2 steps"
    return config


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("run"))
    train.run(small_config(), model_dir=folder, use_fake_data=True)
    return folder


@pytest.fixture(scope="module")
def trained(run):
    found = load_gnmt.load(run)
    # So that the sentences are translated differently.
    for variable in found.network.trainable_variables:
        variable.assign(3 * variable)
    return found


def file_of(trained, folder, lines, batch_size=64, **search):
    """The translation of a file of some lines, as lines."""
    source, target = write(folder, "source", lines), folder / "target"
    counts = Translator(trained, batch_size, 150, **search).translate_file(source, str(target))
    assert counts["lines"] == target.read_bytes().count(b"\n")
    return target.read_text().split("\n")[:-1], counts


def alone(trained, line, **search):
    """The translation of one line by the model itself."""
    [ids] = trained.vocabulary.ids([" ".join(line.split())])
    source, length = tf.constant([[*ids, END]]), tf.constant([len(ids) + 1])
    found = gnmt.translate(trained.network, source, length, begin_token=BEGIN, end_token=END, **search)
    return " ".join(trained.vocabulary.text(found.tokens[0].numpy()).split())


def test_a_run_keeps_its_vocabulary_its_translations_and_the_signature(run, tmp_path):
    manifest = fake.pairs(str(tmp_path))
    with open(os.path.join(run, "vocabulary.model"), "rb") as file:
        assert file.read() == manifest.vocabulary.content
    assert os.listdir(os.path.join(run, "translations")) == ["test-00000002.txt"]
    with open(os.path.join(run, "translations", "test-00000002.txt"), encoding="utf-8") as file:
        lines = file.read().split("\n")[:-1]
    found = bleu(lines, manifest.texts("test")[1])
    [row] = [row for row in read_rows(os.path.join(run, "metrics.jsonl")) if row["split"] == "eval"]
    assert row["bleu"] == pytest.approx(found["score"])
    with open(os.path.join(run, "config.json"), encoding="utf-8") as file:
        assert json.load(file)["signature"] == found["signature"]


def test_a_line_goes_out_for_each_that_comes_in(trained, tmp_path):
    found, counts = file_of(trained, tmp_path, LINES, batch_size=2)
    assert len(found) == 6 and counts == {"lines": 6, "empty": 2, "cut": 0}
    assert found[1] == found[4] == ""
    for line, text in zip(LINES, found):
        if line.strip():
            assert text == alone(trained, line, max_length=5, beam_size=2, coverage_penalty=0.1)
    assert len(set(found)) > 2


def test_greedy_search_and_another_checkpoint(run, trained, tmp_path):
    earlier = load_gnmt.load(run, step=1)
    assert (earlier.step, trained.step) == (1, 2)
    assert not np.array_equal(earlier.network.get_weights()[0], trained.network.get_weights()[0])
    one, _ = file_of(trained, tmp_path, LINES[:1], batch_size=1, beam_size=1, max_decoded=3)
    assert one == [alone(trained, LINES[0], max_length=3, beam_size=1)]
    with pytest.raises(ValueError, match="checkpoint=7: .* has no checkpoint of this step; it has 1, 2"):
        load_gnmt.load(run, step=7)


def test_a_sentence_that_is_too_long_is_cut_and_counted(trained, tmp_path):
    source, target = write(tmp_path, "source", ["ba", "ce " * 9]), tmp_path / "target"
    assert Translator(trained, 2, 4, beam_size=1).translate_file(source, str(target))["cut"] == 1
    cut = file_of(trained, tmp_path, ["ba", "ce " * 4], batch_size=2, beam_size=1)[0]
    assert target.read_text().split("\n")[:-1] == cut


def test_a_bad_text_is_told_with_file_and_line_and_nothing_is_written(trained, tmp_path, monkeypatch):
    target = tmp_path / "target"
    target.write_text("before\n")

    def refused(source, said, target=target):
        with pytest.raises(ValueError, match=said):
            Translator(trained, 2, 150).translate_file(source, str(target))

    refused(
        write(tmp_path, "bad", b"ba\nce\xfc\n"), r"bad, line 2, is not UTF-8 \(invalid start byte, byte 2 of the line"
    )
    refused(str(tmp_path / "nowhere"), "nowhere cannot be read: No such file")
    good = write(tmp_path, "good", ["ba"])
    refused(good, "--output=.*none/target cannot be written: No such file", target=tmp_path / "none" / "target")
    monkeypatch.setattr(Translator, "translate", lambda self, lines: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        Translator(trained, 2, 150).translate_file(good, str(target))
    assert target.read_text() == "before\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad", "good", "target"]


def test_the_vocabulary_of_another_model_is_refused(run, tmp_path):
    other = tmp_path / "other.model"
    other.write_bytes(translation_sets.small_vocabulary().content)
    kept = os.path.join(run, "vocabulary.model")
    os.rename(kept, f"{kept}.away")
    try:
        with pytest.raises(ValueError, match="keeps no vocabulary.model.*into it: DATA_DIR/vocabulary.model"):
            load_gnmt.load(run)
        os.rename(other, kept)
        with pytest.raises(ValueError, match="has [0-9]+ pieces, and the vocabulary 340"):
            load_gnmt.load(run)
        # A run goes on with, and is evaluated on, the vocabulary that it began with.
        with pytest.raises(ValueError, match="vocabulary.model is not the vocabulary.model of the data: the run began"):
            train.run(small_config(), model_dir=run, use_fake_data=True, mode="eval")
    finally:
        os.rename(f"{kept}.away", kept)


def test_it_translates_a_file_and_says_so(run, tmp_path):
    (tmp_path / "in").write_text("".join(f"{line}\n" for line in LINES))
    files = [f"--model_dir={run}", f"--input={tmp_path}/in", f"--output={tmp_path}/out"]
    outcome = tfbigbatch("translate", *files, "--max_length=4", "--batch_size=2", "--beam_size=1")
    assert outcome.returncode == 0, outcome.stderr
    assert "checkpoint  step 2 of" in outcome.stdout and "302 pieces" in outcome.stdout
    assert "translated  6 lines (2 empty, 1 cut) in" in outcome.stdout
    assert (tmp_path / "out").read_text().count("\n") == 6


def test_a_bad_flag_is_one_message(run):
    for given, said in (
        (("--model_dir=x", "--output=z", "--batch_size=0"), "--batch_size=0: 0 is not"),
        (("--model_dir=x", "--output=z"), "x holds no run: it has no config.json"),
        ((f"--model_dir={run}", "--output=./setup.cfg"), "--input and --output are both setup.cfg"),
    ):
        outcome = tfbigbatch("translate", "--input=setup.cfg", *given)
        assert outcome.returncode == 1 and said in outcome.stderr and "Traceback" not in outcome.stderr
