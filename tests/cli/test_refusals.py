"""Flags, paths, experiment files and fields that are wrong are refused without TensorFlow, with one message."""

import json
import os
import subprocess
import sys
import time

import pytest

from tests.helpers.preloaded import ROOT

LEGW = "--config=digits/lstm_legw"
# Command, arguments, and a part of the message. {tmp}: a folder with a file, a sweep and a bad experiment.
REFUSED = [
    ("train", "", "--config is missing"),
    ("train", f"{LEGW}", "--model_dir is missing"),
    ("train", f"{LEGW} --modeldir=x", "Unknown command line flag 'modeldir'. Did you mean: model_dir"),
    ("train", f"{LEGW} --model_dir=x --stall_timeout=one", "flag --stall_timeout=one: "),
    ("train", f"{LEGW} --model_dir=x --mode=evaluate", "<train|eval|train_and_eval>"),
    ("train", f"{LEGW} --model_dir=x --strategy=mirored", "Did you mean 'mirrored'"),
    ("train", f"{LEGW} --model_dir=x --profile_steps=9,3", "expected FIRST,LAST"),
    ("train", f"{LEGW} --model_dir=gs://bucket/run", "--model_dir=gs://bucket/run is a URL; expected a folder"),
    ("train", f"{LEGW} model_dir", "'model_dir' is not a flag"),
    ("train", f"{LEGW} --model_dir=x --config.btach_size=3", "Did you mean 'batch_size'"),
    ("train", f"{LEGW} --model_dir=x --config.batch_size=abc", "--config.batch_size=abc: expected a value of type int"),
    ("train", f"{LEGW} --model_dir=x --config.duration=5", "expected a number and its unit"),
    ("train", f"{LEGW} --model_dir=x --config.schedule.rule=lgw", "Did you mean 'legw'"),
    ("train", f"{LEGW} --model_dir=x --config.batch_size=5000", "larger than the training set of 1437 examples"),
    ("train", "--config=digits/lstm_lewg --model_dir=x", "Did you mean 'digits/lstm_legw'"),
    ("train", "--config={tmp}/bad.py --model_dir=x", "bad.py, line 5: TypeError: wrong"),
    ("train", f"{LEGW} --model_dir=x --data_dir=/nowhere", "--data_dir=/nowhere: no such folder"),
    ("train", f"{LEGW} --model_dir={{tmp}}/file/x", "file/x cannot be written: Not a directory"),
    ("sweep", "--sweep=mnist/stduy --model_dir=x", "--sweep=mnist/stduy: no such file"),
    ("sweep", "--model_dir=x", "expected either --sweep=FILE or --config=FILE,..."),
    ("sweep", "--sweep=few_steps/sweep --model_dir=x --only=Moun@640", "no such row. Did you mean 'Muon@640'"),
    ("sweep", "--sweep=few_steps/sweep --model_dir=x --seeds=1", "--seeds does not go with --sweep"),
    ("sweep", "--sweep={tmp}/sweep.py --model_dir=x --config.batch_size=8", "cannot be set for all rows"),
    ("sweep", "--sweep={tmp}/sweep.py --model_dir={tmp}/x --data_dir=/nowhere", "/nowhere: no such folder"),
    ("sweep", f"{LEGW} --model_dir=x --only=LEGW", "--only does not go with --config"),
    ("sweep", f"{LEGW} --model_dir=x --seeds=one --grid.batch_size=8", "--seeds=one: expected whole numbers"),
    ("sweep", "--config=digits/lstm_legw,mnist/lstm_legw --model_dir=x", "the rows before are of digits_lstm"),
    ("report", "", "expected either RUN_DIR... or --sweep=FILE"),
    ("report", "{tmp}", "holds no run directory"),
    ("report", "nowhere", "nowhere does not exist; expected a run directory"),
    ("report", "{tmp}/file", "file is a file; expected a run directory"),
    ("critical-batch", "nowhere --model_dir=a --results={tmp}/b", "nowhere holds no run"),
    ("advise", "--config=digits/lstm_smal", "Did you mean 'digits/lstm_small_batch'"),
    ("advise", f"{LEGW} --batch_size=many", "--batch_size=many"),
    ("advise", f"{LEGW} --output=/dev/null/advice", "/dev/null/advice"),
    ("tpu-check", f"{LEGW} --topology=v3-8 --config.batchsize=1", "Did you mean 'batch_size'"),
    ("tpu-check", f"{LEGW}", "flag --topology=None: "),
    ("tpu-check", f"{LEGW} --topology=v3-8 --replicas=9", "runs at most 8"),
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
            main.run_command(name, arguments)
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
    (tmp / "sweep.py").write_text(
        "from tfbigbatch import sweeps\nfrom tfbigbatch.config import load_config\n\n\n"
        "def get_sweep():\n    table = sweeps.Sweep('Digits')\n"
        "    table.add('LEGW', load_config('digits/lstm_legw'))\n    return table\n"
    )
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


def test_it_takes_less_than_two_seconds():
    seconds = []
    for _ in range(3):
        started = time.perf_counter()
        command = [sys.executable, "-m", "tfbigbatch", "train", LEGW, "--model_dir=x", "--config.btach_size=3"]
        assert subprocess.run(command, cwd=ROOT, capture_output=True).returncode == 1
        seconds.append(time.perf_counter() - started)
    assert min(seconds) < 2.0
