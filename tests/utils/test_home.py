import pathlib

import pytest

from tfbigbatch import tasks
from tfbigbatch.config import load_config
from tfbigbatch.models import bert_checkpoints
from tfbigbatch.tasks import bert_finetuning
from tfbigbatch.utils.home import expanded, expanded_texts


@pytest.fixture(autouse=True)
def home(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")


def test_a_tilde_at_the_beginning_is_the_home_folder():
    assert expanded("~/x") == expanded(pathlib.Path("~/x")) == "/home/me/x" and expanded("~") == "/home/me"
    assert expanded("a/~/x") == "a/~/x" and expanded("~nobody-of-this-name/x") == "~nobody-of-this-name/x"
    assert expanded(None) is None
    assert expanded_texts({"a": ["~/x", 1], "b": ("~/y",)}) == {"a": ["/home/me/x", 1], "b": ("/home/me/y",)}


def test_in_the_fields_of_a_config_too():
    data = {**bert_finetuning.BertGlue.data_defaults, "vocab_file": "~/vocab.txt"}
    with pytest.raises(ValueError, match="data.vocab_file=~/vocab.txt: no such file"):
        bert_finetuning.BertGlue(model={"init_checkpoint": ""}, data=data, data_dir="/", use_fake_data=False)
    with pytest.raises(ValueError, match="/home/me/bert: no such checkpoint"):
        bert_checkpoints.read("~/bert")
    with pytest.raises(ValueError, match="config=/home/me/mine.py: no such file"):
        load_config("~/mine.py")
    seen = []

    def read(folder="~/images"):
        seen.append(folder)
        raise ValueError("enough")

    tasks.define("of_folder", network=lambda: None, data=read)
    kind = tasks.get("of_folder")
    with pytest.raises(ValueError, match="enough"):
        kind(model={}, data=dict(kind.data_defaults), data_dir=None, use_fake_data=False)
    assert seen == ["/home/me/images"]
