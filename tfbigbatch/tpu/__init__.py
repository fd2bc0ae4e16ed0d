"""Is a training step ready for a TPU slice? Compiled ahead of time, on a machine that has none.

The tool is `tools/tpu_check.py`; docs/tpu.md tells how it works. Nothing here is imported by a training run.
"""
