"""Prepares a folder (data/translation/manifest.py) from parallel texts; see `prepare.prepare`.

Nothing here imports TensorFlow, which would cost each worker process seconds and 400 MB.
"""
