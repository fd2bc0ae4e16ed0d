import os

import pytest

from tfbigbatch import tasks
from tfbigbatch.config import load_config
from tfbigbatch.data.translation import vocabulary as translation_vocabulary
from tfbigbatch.tpu import stub_datasets

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def task_of(path, folder):
    """The task of an experiment on data of the public set's sizes."""
    config = load_config(os.path.join(ROOT, path))
    folder, fields = stub_datasets.write(config, str(folder)), config.to_dict()
    task = tasks.get(config.task)
    return task(model=fields["model"], data=fields["data"], data_dir=folder, use_fake_data=False)


def test_translations_have_the_pieces_of_wmt(tmp_path):
    task_of("experiments/wmt/gnmt_legw.py:4k", tmp_path)
    vocabulary = translation_vocabulary.Vocabulary.load(str(tmp_path / "vocabulary.model"))
    assert len(vocabulary) == 32_000


def test_words_are_those_of_the_penn_treebank(tmp_path):
    task = task_of("experiments/ptb/small.py:legw", tmp_path)
    # 640 rows of 1,452 words, in windows of 20, the last one short; each is an example.
    assert task.train.examples_in_epoch(640) == 640 * 73


def test_images_and_digits_are_as_many_as_in_the_public_sets(tmp_path):
    assert task_of("experiments/mnist/lstm_legw.py", tmp_path).train.examples_in_epoch(128) == 60_000
    assert task_of("experiments/digits/lstm_legw.py", tmp_path / "digits").train.examples_in_epoch(64) == 1_437


def test_an_unknown_task_is_told(quick_config):
    config = quick_config()
    config.task = "of_a_user"
    with pytest.raises(ValueError, match="of_a_user.*pass --data_dir"):
        stub_datasets.write(config, "nowhere")
