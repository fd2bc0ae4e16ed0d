"""Text for matplotlib's figures: names of runs, metrics and files are set as they are."""

from __future__ import annotations


def plain(text: str) -> str:
    """Text escaped for matplotlib, which sets what is between two dollar signs as a formula."""
    return text.replace("$", r"\$")
