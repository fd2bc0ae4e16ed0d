"""Loads saved models in a process that imported tfbigbatch and a Keras, and nothing else of either.

`python saved_model_loader.py tfbigbatch,keras FILE ...` imports the modules in this order, and prints for each file the
class of its optimizer, its step and its learning rate.
"""

import importlib
import sys


def main(modules, *files):
    modules = [importlib.import_module(name) for name in modules.split(",")]
    [keras] = [module for module in modules if module.__name__ in ("keras", "tf_keras")]
    for file in files:
        optimizer = keras.models.load_model(file).optimizer
        # A schedule that is not one of tfbigbatch's would not be callable.
        rate = float(getattr(optimizer, "inner_optimizer", optimizer).learning_rate)
        print(type(optimizer).__name__, int(optimizer.iterations), round(rate, 6))


if __name__ == "__main__":
    main(*sys.argv[1:])
