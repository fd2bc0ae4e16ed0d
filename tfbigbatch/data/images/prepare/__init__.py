"""Makes a prepared folder (data/images/manifest.py) of images as they come; see `prepare.prepare`.

Nothing here imports TensorFlow: a worker process starts in a fraction of a second, and many fit into memory.
"""
