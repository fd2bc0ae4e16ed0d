"""Compile-only checks of training steps for TPU slices, on a machine without a TPU.

The command is `tfbigbatch tpu-check`; docs/tpu.md explains how it works. Training runs import nothing from here.
"""
