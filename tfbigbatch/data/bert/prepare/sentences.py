"""Paragraphs cut into sentences, by a simple rule: next-sentence prediction needs segments, not grammar.

A sentence ends at '.', '!' or '?', with quotes or brackets that close after it, before white space and
something that begins a sentence: a capital, a digit, or a quote or bracket that opens. It does not end after
a single capital ("J. Smith") or a common abbreviation. Where a text was cut into words ("left . " Why"), a quote
may open or close; it goes with the sentence before.
"""

import re

_END = re.compile(r"""[.!?]["'”’)\]]*( ["'”’)\]])*\s+(?=["'“‘(\[]?\s?[^\W_a-z])""")
_ABBREVIATED = re.compile(
    r"[\s(\"'](?:[^\W\d_]|Mr|Mrs|Ms|Dr|St|Jr|Sr|Prof|Gen|Col|Capt|Lt|Sgt|Rev|Hon|No|Nos|vs|etc|cf|ca|al|vol|pp"
    r"|Fig|Inc|Ltd|Co|Corp|e\.g|i\.e|[A-Z](?:\.[A-Z])+)$"
)
# More characters than an abbreviation has.
_LONGEST = 12


def of_paragraphs(lines):
    """The sentences of some paragraphs, a line each; a list."""
    return [sentence for line in lines for sentence in _of_paragraph(line)]


def _of_paragraph(line):
    begin = 0
    for match in _END.finditer(line):
        # "U.S." and "J." end in a full stop that is their own; "Smith ." of a text cut into words is not.
        before = line[max(begin, match.start() - _LONGEST) : match.start()]
        if line[match.start()] == "." and _ABBREVIATED.search(" " + before):
            continue
        yield line[begin : match.end()]
        begin = match.end()
    if begin < len(line):
        yield line[begin:]
