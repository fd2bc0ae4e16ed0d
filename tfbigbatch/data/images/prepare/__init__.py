"""Prepares image datasets (data/images/manifest.py) from their usual layouts; see `prepare.prepare`.

Nothing here imports TensorFlow: a worker process starts in a fraction of a second, and many fit into memory.
"""
