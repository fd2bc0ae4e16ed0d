"""Packing of short sequences into rows with less padding: best fit, longest first.

Krell et al. 2021 (arXiv:2107.02027) pack BERT's sequences and block attention between them.
"""

from __future__ import annotations

from tfbigbatch.data.bert.prepare.records import Sequence


def packed(sequences: list[Sequence], length: int) -> list[list[Sequence]]:
    """Rows of sequences with at most `length` tokens each; each sequence, of at most `length` tokens, is in one row."""
    rows: list[list[Sequence]] = []
    by_room: list[list[list[Sequence]]] = [[] for _ in range(length + 1)]
    for sequence in sorted(sequences, key=lambda sequence: -len(sequence[0])):
        size = len(sequence[0])
        room = next((room for room in range(size, length + 1) if by_room[room]), None)
        if room is None:
            room = length
            row: list[Sequence] = []
            rows.append(row)
        else:
            row = by_room[room].pop()
        row.append(sequence)
        by_room[room - size].append(row)
    return rows
