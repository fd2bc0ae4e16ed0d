"""A notebook as Markdown: its cells with the output that is stored in it. Nothing is executed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any


def markdown_of(notebook: str) -> str:
    """The Markdown of a notebook, given as the text of its file."""
    blocks: list[str] = []
    for cell in json.loads(notebook)["cells"]:
        source = _text(cell["source"])
        if cell["cell_type"] == "markdown":
            blocks.append(source)
        elif cell["cell_type"] == "code":
            blocks += [_fence("python", source), *_outputs(cell["outputs"])]
    return "\n\n".join(blocks) + "\n"


def _outputs(outputs: list[Mapping[str, Any]]) -> Iterator[str]:
    """A cell's printed lines as one block, and each picture, table or value."""
    printed = "".join(_text(each["text"]) for each in outputs if each["output_type"] == "stream")
    if printed:
        yield _fence("text", printed)
    for data in (each["data"] for each in outputs if "data" in each):
        if "image/png" in data:
            yield f"![output](data:image/png;base64,{_text(data['image/png']).replace(chr(10), '')})"
        elif "text/markdown" in data:
            yield _text(data["text/markdown"]).strip()
        else:
            yield _fence("text", _text(data["text/plain"]))


def _fence(language: str, text: str) -> str:
    # Four, as a text may hold three.
    return f"````{language}\n{text.rstrip()}\n````"


def _text(lines: str | list[str]) -> str:
    return lines if isinstance(lines, str) else "".join(lines)
