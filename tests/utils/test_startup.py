"""TensorFlow's import."""

import subprocess
import sys

IMPORT = """
import gc
from tfbigbatch.utils import startup
startup.import_tensorflow()
import tensorflow as tf, keras
print(gc.isenabled(), tf.keras.__version__ == keras.__version__)
"""


def test_tensorflow_is_imported_and_the_collector_is_on_afterwards():
    out = subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True).stdout
    assert out.split() == ["True", "True"]
