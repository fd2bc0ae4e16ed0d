"""Commands with a mistake are refused before TensorFlow is imported, with one message."""

import json
import os
import subprocess
import sys

import pytest

from tests.helpers.preloaded import ROOT

LEGW = "--config=digits/lstm_legw"
# Command, arguments, and a part of the message. {tmp}: a folder with a run of another config, a file, a bad experiment.
REFUSED = [
    ("train", "", "--config is missing"),
    ("train", f"{LEGW}", "--model_dir is missing"),
    ("train", f"{LEGW} --model_dir=x --sed=1", "Unknown command line flag 'sed'. Did you mean: seed"),
    ("train", f"{LEGW} --model_dir=x --seed=one", "--seed=one: expected a whole number."),
    ("train", f"{LEGW} --model_dir=x --mode=evaluate", "<train|eval|train_and_eval>"),
    ("train", f"{LEGW} --model_dir=x --strategy=mirored", "Did you mean 'mirrored'"),
    ("train", f"{LEGW} --model_dir=x --config.btach_size=3", "Did you mean 'batch_size'"),
    ("train", f"{LEGW} --model_dir=x --config.batch_size=abc", "--config.batch_size=abc: expected a whole number"),
    ("train", f"{LEGW} --model_dir=x --config.duration=5", "expected a number and its unit"),
    ("train", f"{LEGW} --model_dir=x --config.schedule.rule=lgw", "Did you mean 'legw'"),
    ("train", f"{LEGW} --model_dir=x --config.optimizer.beta_1=3", "'momentum' takes no argument 'beta_1'"),
    ("train", f"{LEGW} --model_dir=x --config.batch_size=5000", "larger than the training set of 1437 examples"),
    ("train", "--config=digits/lstm_lewg --model_dir=x", "Did you mean 'digits/lstm_legw'"),
    ("train", "--config={tmp}/bad.py --model_dir=x", "bad.py, line 5: TypeError: wrong"),
    ("train", f"{LEGW} --model_dir=x --data_dir=/nowhere", "--data_dir=/nowhere: no such folder"),
    ("train", f"{LEGW} --model_dir={{tmp}}/file/x", "file/x cannot be written: Not a directory"),
    ("train", f"{LEGW} --model_dir={{tmp}}/run", "holds a run of another config"),
    ("train", f"{LEGW} --model_dir={{tmp}}/none --mode=eval", "holds no checkpoint"),
    ("train", f"{LEGW} --model_dir=x --init_from={{tmp}}/none", "no checkpoint is there"),
    ("train", "--config=imagenet/resnet50 --model_dir=x", "--data_dir is missing"),
    ("train", "--config=imagenet/resnet50 --model_dir=x --data_dir={tmp}", "holds no prepared images"),
    ("train", "--config=ptb/small --model_dir=x --data_dir={tmp}", "is not a prepared corpus"),
    ("study", "--study=mnist/stduy --model_dir=x", "--study=mnist/stduy: no such file"),
    ("study", "--study=mnist/study --model_dir={tmp}/x --data_dir=/nowhere", "--data_dir=/nowhere: no such folder"),
    ("study", "few_step --model_dir=x", "'few_step' is not a flag, and no benchmark. Did you mean 'few_steps'"),
    ("study", "few_steps --model_dir=x --tasks=prb", "few_steps has no task 'prb'. Did you mean 'ptb'"),
    (
        "study",
        "few_steps --model_dir=x --tasks=ptb --only=Moun@640",
        "the study has no such row. Did you mean 'Muon@640'",
    ),
    ("study", "few_steps --model_dir=x --optimizer=mine", "--optimizer=mine: expected FILE:NAME"),
    ("study", "few_steps --model_dir=x --optimizer={tmp}/none.py:mine", "--optimizer={tmp}/none.py: no such file"),
    ("study", "few_steps --model_dir=x --optimizer={tmp}/bad.py:mine", "the file registers no optimizer 'mine'"),
    ("study", "few_steps --model_dir=x --seeds=1", "--seeds does not go with few_steps"),
    ("study", "few_steps --study=mnist/study --model_dir=x", "expected one of --study=FILE"),
    ("study", "few_steps --model_dir=x --budget=0", "--budget"),
    ("study", "--study=mnist/study --model_dir=x --budget=3", "--budget and --optimizer are for studies with trials"),
    ("study", "--study=mnist/study --model_dir=x --tasks=ptb", "--tasks does not go with --study"),
    (
        "study",
        "--study=mnist/study --model_dir=x --config.batch_size=8",
        "--config.batch_size cannot be set for all rows",
    ),
    ("study", "--study=mnist/study --model_dir=x --config.durration=8", "Did you mean 'duration'"),
    ("study", f"{LEGW} --model_dir=x", "--config needs --learning_rates"),
    ("study", f"{LEGW} --model_dir=x --sweep.batchsize=1,2", "Did you mean 'batch_size'"),
    ("study", f"{LEGW} --model_dir=x --sweep.batch_size=8,8", "8 is there twice"),
    ("study", f"{LEGW} --model_dir={{tmp}}/x --sweep.batch_size=8,9 --data_dir=/nowhere", "no such folder"),
    ("compare", "--configs=digits/lstm_legw,mnist/lstm_legw --model_dir=x", "several tasks, digits_lstm, mnist_lstm"),
    ("compare", "--model_dir=x --config.batchsize=3", "Did you mean 'batch_size'"),
    ("tune", f"{LEGW} --model_dir=x --learning_rates=fast", "--learning_rates=fast: expected numbers"),
    ("scale", f"{LEGW} --rule=lgew", "Did you mean 'legw'"),
    ("scale", f"{LEGW} --config.schedule.decay=liner", "Did you mean 'linear'"),
    ("report", "/nowhere", "/nowhere does not exist"),
    ("report", "{tmp}/file", "is a file; expected a run directory"),
    ("report", "{tmp}/empty", "holds no run directory"),
    ("explain", "{tmp}/empty --results={tmp}/x", "holds no run directory"),
    ("explain", "{tmp}/run --results={tmp}/x --data_dir=/nowhere", "--data_dir=/nowhere: no such folder"),
    ("translate", "--model_dir={tmp}/none --input={tmp}/file --output=x", "{tmp}/none holds no run"),
    ("translate", "--model_dir={tmp}/run --input={tmp}/none --output=x", "--input={tmp}/none: no such file"),
    ("export", "{tmp}/none", "{tmp}/none holds no run"),
    ("tpu-check", "--config=digits/lstm_lewg --topology=v3-8", "Did you mean 'digits/lstm_legw'"),
    ("tpu-check", f"{LEGW} --topology=v3-8 --config.batchsize=1", "Did you mean 'batch_size'"),
    ("plan", "--checks={tmp}/none.json", "none.json"),
]
RUN_THEM = """
import contextlib, io, json, sys
from absl import flags
from tfbigbatch.cli import main
# An import of one of these raises.
sys.modules.update({"tensorflow": None, "tf_keras": None, "keras": None})
said = []
for name, arguments in json.load(sys.stdin):
    before, err = set(flags.FLAGS), io.StringIO()
    with contextlib.redirect_stderr(err), contextlib.redirect_stdout(io.StringIO()):
        try:
            main.run_command(name, arguments, "tfbigbatch " + name)
        except SystemExit as stopped:
            code = stopped.code
        except ImportError as error:
            code = str(error)
    flags.FLAGS.remove_flag_values([each for each in flags.FLAGS if each not in before])
    flags.FLAGS.unparse_flags()
    said.append([code, err.getvalue()])
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """[exit code, stderr, expected words] of each refused command, all in one process without TensorFlow."""
    tmp = tmp_path_factory.mktemp("refused")
    (tmp / "file").write_text("text\n")
    (tmp / "bad.py").write_text("\n\n\ndef get_config():\n    raise TypeError('wrong')\n")
    (tmp / "empty").mkdir()
    (tmp / "run").mkdir()
    content = {"config": {"task": "digits_lstm", "seed": 0, "batch_size": 3, "model": {}}}
    (tmp / "run" / "config.json").write_text(json.dumps(content))
    commands = [[name, arguments.format(tmp=tmp).split()] for name, arguments, _ in REFUSED]
    done = subprocess.run(
        [sys.executable, "-c", RUN_THEM],
        input=json.dumps(commands),
        cwd=tmp,
        env={**os.environ, "PYTHONPATH": ROOT},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return [(*each, said.format(tmp=tmp)) for each, (_, _, said) in zip(json.loads(done.stdout), REFUSED, strict=True)]


@pytest.mark.parametrize("number", range(len(REFUSED)), ids=[f"{name} {given}" for name, given, _ in REFUSED])
def test_it_is_refused_without_tensorflow(outcomes, number):
    code, err, said = outcomes[number]
    assert code == 1, code
    assert err.startswith("error: ") and "Traceback" not in err
    assert said in err
