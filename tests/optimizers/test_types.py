"""What a type checker says to a user: the constructors have their arguments, of their types, by name."""

import os
import subprocess
import sys

from tests.test_command_line import ROOT

PROGRAM = """
import tfbigbatch
from tfbigbatch import keras2
from tfbigbatch.optimizers import keras3

optimizer = tfbigbatch.LAMB(0.01, beta_1=0.8, exclude_from_weight_decay=["bias"], weight_decay=lambda: 0.1)
rate: float = optimizer.beta_1
every: int = tfbigbatch.Shampoo(graft="lamb", root={"every": 5}).root.every
keras2.LARS(momentum=0.8, jit_compile=True)
keras3.Muon(vectors={"step": "lamb"}, loss_scale_factor=2.0)
keras3.Adasum(optimizer, "updates", 2)
keras2.LocalSteps(keras2.AdamW(), every=4)
"""
# Each is one line of a user's program, with what is said of it.
WRONG = {
    'tfbigbatch.LAMB(0.01, beta_1="large")': 'Argument "beta_1" to "LAMB" has incompatible type "str"',
    "tfbigbatch.LAMB(0.01, beta1=0.8)": 'Unexpected keyword argument "beta1" for "LAMB"; did you mean "beta_1"?',
    "tfbigbatch.LAMB(0.01, 0.8)": 'Too many positional arguments for "LAMB"',
    "tfbigbatch.Muon(micro_steps=1)": 'Unexpected keyword argument "micro_steps" for "Muon"',
    'keras2.LARS(momentum="large")': 'Argument "momentum" to "LARS" has incompatible type "str"',
    "keras2.Muon(0.01, momentun=0.9)": 'Unexpected keyword argument "momentun" for "Muon"; did you mean "momentum"?',
    'keras3.Shampoo(block_size="128")': 'Argument "block_size" to "Shampoo" has incompatible type "str"',
    "keras3.AdamW(exclude_from_layer_adaptation=[])": 'Unexpected keyword argument "exclude_from_layer_adaptation"',
    'keras3.LocalSteps(optimizer, every="often")': 'Argument "every" to "LocalSteps" has incompatible type "str"',
    "keras2.Adasum(optimizer, combine=1)": 'Argument "combine" to "Adasum" has incompatible type "int"',
    "keras3.LocalSteps(optimizer)": 'Missing positional argument "every" in call to "LocalSteps"',
}


def test_mypy_reports_wrong_arguments_and_no_right_ones(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM + "\n".join(WRONG))
    command = [sys.executable, "-m", "mypy", "--ignore-missing-imports", "--follow-imports=silent", program.name]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "MYPYPATH": ROOT})
    first = PROGRAM.count("\n") + 1
    said = done.stdout.splitlines()
    for number, (line, expected) in enumerate(WRONG.items(), first):
        found = [each for each in said if each.startswith(f"{program.name}:{number}: error: ")]
        assert len(found) == 1 and expected in found[0], (line, found)
    assert len(said) == len(WRONG) + 1, done.stdout
