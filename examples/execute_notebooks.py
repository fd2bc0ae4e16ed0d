"""Executes the notebooks of this folder and stores them with their output: `make notebooks`.

Output that does not belong in a repository is an error: warnings, paths of this machine, more than 200 KB.
"""

import os
import re
import sys
import tempfile

import nbclient
import nbformat

FOLDER = os.path.dirname(os.path.abspath(__file__))
NOTEBOOKS = ("own_model.ipynb", "reading_a_report.ipynb")
LARGEST = 200_000  # bytes of a notebook with its output
# What TensorFlow says of the machine is left out, and so are other packages' warnings.
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONWARNINGS": "ignore", "CUDA_VISIBLE_DEVICES": "-1"}


def execute(path):
    """The notebook with the output of its cells, which ran in an empty folder."""
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        client = nbclient.NotebookClient(notebook, timeout=900, resources=resources, record_timing=False)
        client.execute(env={**os.environ, **QUIET})
    # The kernel adds the version of Python.
    notebook.metadata = {"kernelspec": notebook.metadata["kernelspec"], "language_info": {"name": "python"}}
    return notebook


def problems(notebook):
    """What is wrong with the output: a list of sentences."""
    found = []
    text = nbformat.writes(notebook)
    if len(text) > LARGEST:
        found.append(f"{len(text):,} bytes, more than {LARGEST:,}")
    for number, cell in enumerate(notebook.cells):
        for output in cell.get("outputs", []):
            said = str(output.get("text", "")) + str(output.get("data", {}).get("text/plain", ""))
            if output.output_type == "error" or output.get("name") == "stderr" or re.search(r"[Ww]arning", said):
                found.append(f"cell {number} warns or fails: {said[-300:]}")
            for path in re.findall(r"(?:^|[\s'\"=])(/(?:tmp|home|root|usr|work|opt|var|Users)/\S*)", said):
                found.append(f"cell {number} names a path of this machine: {path}")
    return found


def main():
    for name in NOTEBOOKS:
        notebook = execute(os.path.join(FOLDER, name))
        if found := problems(notebook):
            sys.exit("\n".join(f"{name}: {each}" for each in found))
        nbformat.write(notebook, os.path.join(FOLDER, name))
        print(f"{name}: {len(nbformat.writes(notebook)):,} bytes")


if __name__ == "__main__":
    main()
