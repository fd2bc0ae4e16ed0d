"""Keras callbacks of a run. They work in any `fit`, and count optimizer steps."""
