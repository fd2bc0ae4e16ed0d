"""Several short sequences in one row, so that less of it is padding.

Krell et al. 2021 (arXiv:2107.02027) pack BERT's sequences so, and block attention between them; what goes together
is by best fit here, the longest first.
"""


def packed(sequences, length):
    """Rows of sequences: each sequence is in one row, and a row has `length` tokens at most.

    The longest sequence is put first, and each goes where it leaves the least room.

    Args:
      sequences: list of tuples whose first entry is a list of 1 to `length` tokens.
      length: tokens of a row.

    Returns:
      list of rows, lists of sequences.
    """
    rows, by_room = [], [[] for _ in range(length + 1)]
    for sequence in sorted(sequences, key=lambda sequence: -len(sequence[0])):
        size = len(sequence[0])
        room = next((room for room in range(size, length + 1) if by_room[room]), None)
        if room is None:
            room, row = length, []
            rows.append(row)
        else:
            row = by_room[room].pop()
        row.append(sequence)
        by_room[room - size].append(row)
    return rows
