"""Makes a prepared folder (data/translation/manifest.py) of parallel plain texts; see `prepare.prepare`.

Nothing here needs TensorFlow: a process that imports it takes seconds and 400 MB more.
"""
