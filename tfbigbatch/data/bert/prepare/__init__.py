"""Makes a prepared folder (data/bert/manifest.py) of plain text for BERT's pretraining; see `prepare.prepare`.

Nothing here needs TensorFlow: a process that imports it takes seconds and 400 MB more.
"""
