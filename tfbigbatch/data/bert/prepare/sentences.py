"""Rule-based sentence splitting: next-sentence prediction needs segments, not grammar.

A sentence ends at '.', '!' or '?' and closing quotes or brackets, before white space and a capital, a digit, or an
opening quote or bracket; not after a single capital ("J. Smith") or a common abbreviation. In tokenised text
("left . " Why") an ambiguous quote belongs to the sentence before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_END = re.compile(r"""[.!?]["'”’)\]]*( ["'”’)\]])*\s+(?=["'“‘(\[]?\s?[^\W_a-z])""")
_ABBREVIATED = re.compile(
    r"[\s(\"'](?:[^\W\d_]|Mr|Mrs|Ms|Dr|St|Jr|Sr|Prof|Gen|Col|Capt|Lt|Sgt|Rev|Hon|No|Nos|vs|etc|cf|ca|al|vol|pp"
    r"|Fig|Inc|Ltd|Co|Corp|e\.g|i\.e|[A-Z](?:\.[A-Z])+)$"
)
# Longer than any abbreviation.
_LONGEST = 12


def of_paragraphs(lines: Iterable[str]) -> list[str]:
    """The sentences of some paragraphs, one per line."""
    return [sentence for line in lines for sentence in _of_paragraph(line)]


def _of_paragraph(line: str) -> Iterator[str]:
    begin = 0
    for match in _END.finditer(line):
        # The full stop of "U.S." and "J." is part of the word; that of a tokenised "Smith ." is not.
        before = line[max(begin, match.start() - _LONGEST) : match.start()]
        if line[match.start()] == "." and _ABBREVIATED.search(" " + before):
            continue
        yield line[begin : match.end()]
        begin = match.end()
    if begin < len(line):
        yield line[begin:]
