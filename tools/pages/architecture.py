"""A diagram of boxes in rows, from a text.

    row Your code: what you write
      fit | your model.fit | compile with LAMB, LARS, Muon
      task | your task | one file: tasks.define
    row The trainer
      trainer | trainer | checkpoints, exact resume
    task -> trainer

A row has a title and boxes; a box has a name for arrows, a heading, and a line of text.
"""

from __future__ import annotations

import dataclasses
import re
import textwrap
from collections.abc import Sequence
from typing import Any

# Of a row's band and its boxes.
_COLOURS = (("#eaf1f8", "#0072B2"), ("#fdf1e7", "#D55E00"), ("#e8f5f0", "#009E73"), ("#f3f3f3", "#666666"))
_WIDTH, _HEIGHT, _LEFT = 10.0, 1.25, 1.35


@dataclasses.dataclass(frozen=True)
class Box:
    """A box: its name for arrows, heading and text."""

    name: str
    heading: str
    text: str


@dataclasses.dataclass(frozen=True)
class Diagram:
    """Rows of boxes from top to bottom as (title, boxes), and arrows as (from, to)."""

    rows: Sequence[tuple[str, Sequence[Box]]]
    arrows: Sequence[tuple[str, str]]


def parse(text: str) -> Diagram:
    """The diagram of a text.

    Raises:
      ValueError: a line is none of the three kinds, or an arrow names a box that is not there.
    """
    rows: list[tuple[str, list[Box]]] = []
    arrows = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith("row "):
            rows.append((line.removeprefix("row ").strip(), []))
        elif line.startswith("  ") and line.count("|") == 2 and rows:
            rows[-1][1].append(Box(*(part.strip() for part in line.split("|"))))
        elif arrow := re.fullmatch(r"(\w+) -> (\w+)", line.strip()):
            arrows.append((arrow[1], arrow[2]))
        else:
            raise ValueError(
                f"line {number}, {line!r}: expected 'row TITLE', '  NAME | HEADING | TEXT' or 'NAME -> NAME'"
            )
    names = {box.name for _, boxes in rows for box in boxes}
    if unknown := {name for arrow in arrows for name in arrow} - names:
        raise ValueError(f"the arrows name {sorted(unknown)}; the boxes are {sorted(names)}")
    return Diagram(rows, arrows)


def draw(axes: Any, diagram: Diagram) -> None:
    """Draws a diagram: arrows lead from the lower edge of a box to the upper edge of one below it."""
    from matplotlib.patches import FancyBboxPatch

    axes.set(xlim=(0, _WIDTH), ylim=(0.2 - _HEIGHT * len(diagram.rows), 0.1))
    axes.set_axis_off()
    middles: dict[str, tuple[float, float]] = {}
    for index, (title, boxes) in enumerate(diagram.rows):
        band, edge = _COLOURS[index % len(_COLOURS)]
        top = -_HEIGHT * index
        style = "round,pad=0,rounding_size=0.08"
        axes.add_patch(
            FancyBboxPatch((0.05, top - 0.95), _WIDTH - 0.1, 0.95, style, facecolor=band, edgecolor="none", zorder=0)
        )
        axes.text(0.15, top - 0.475, textwrap.fill(title, 14), va="center", fontsize=9, fontweight="bold", color=edge)
        width = (_WIDTH - _LEFT - 0.1) / len(boxes)
        for place, box in enumerate(boxes):
            left = _LEFT + width * place
            middles[box.name] = (left + width / 2, top)
            corner = (left + 0.06, top - 0.85)
            axes.add_patch(
                FancyBboxPatch(corner, width - 0.12, 0.75, style, facecolor="white", edgecolor=edge, zorder=2)
            )
            axes.text(
                left + width / 2, top - 0.27, box.heading, ha="center", va="center", fontsize=9, fontweight="bold"
            )
            wrapped = textwrap.fill(box.text, int(11.5 * width))
            axes.text(left + width / 2, top - 0.58, wrapped, ha="center", va="center", fontsize=7.5, color="#333333")
    for start, end in diagram.arrows:
        (x, top), (to_x, to_top) = middles[start], middles[end]
        axes.annotate(
            "",
            zorder=1,  # behind the boxes
            xy=(to_x, to_top - 0.1),
            xytext=(x, top - 0.85),
            arrowprops={"arrowstyle": "-|>", "color": "#888888", "linewidth": 1, "shrinkA": 0, "shrinkB": 0},
        )
