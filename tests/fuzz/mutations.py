"""Damage to files, of a seeded random.Random: the same choices give the same damage."""

import json

# What text files of the world hold where nobody expects it.
_ODD_BYTES = (
    b"",
    b"\0",
    b"\n",
    b"\r",
    b"\r\n",
    b"\n\n\n",
    b"\t",
    b'"',
    b"\\",
    b"{",
    b"[" * 3000,
    b"}",
    b"<doc ",
    b"</doc>",
    b" = = ",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\xc3",
    "\u2028\u0085\u2581\ufffd".encode(),
    "\ud800".encode("utf-8", "surrogatepass"),
    b"-1",
    b"1e999",
    b"nan",
    b"9" * 5000,
    b"word " * 400,
    b"x" * 100_000,
)
_ODD_VALUES = (
    None,
    True,
    -1,
    0,
    0.5,
    2**70,
    10**400,
    float("inf"),
    float("nan"),
    "",
    "x",
    "\0",
    "\ud800",
    "\u2028 \u2581",
    "x" * 100_000,
    [],
    [None],
    ["A"],
    {},
    {"a": 1},
    [[[]]],
)


def of_file(choices, name, content):
    """Damage to a file's bytes, or to the JSON that a file of this name holds."""
    if name.endswith(".json"):
        return of_json(choices, json.loads(content))
    inside = choices.random() < 0.6
    if name.endswith(".jsonl") and inside:
        lines = content.splitlines()
        number = choices.randrange(len(lines))
        lines[number] = of_json(choices, json.loads(lines[number]))
        return b"\n".join(lines) + b"\n"
    if name.endswith(".safetensors") and inside:
        end = 8 + int.from_bytes(content[:8], "little")
        header = of_json(choices, json.loads(content[8:end]))
        return len(header).to_bytes(8, "little") + header + content[end:]
    return of_bytes(choices, content)


def of_bytes(choices, content):
    """A few changes to a file's bytes: cut, flipped, put in, taken out, doubled; or all of it replaced."""
    for _ in range(choices.randint(1, 3)):
        content = choices.choice(_CHANGES)(choices, content)
    return content


def of_json(choices, value):
    """A JSON text of a value in which some part was replaced, taken out or doubled; or of which the bytes changed."""
    kind = choices.random()
    if kind < 0.15:
        return of_bytes(choices, json.dumps(value).encode())
    if kind < 0.2:
        # Deeper than Python's parser goes.
        return b'{"a":' * 100_000
    changed = json.loads(json.dumps(value))
    for _ in range(choices.randint(1, 2)):
        changed = _replaced(choices, changed)
    return json.dumps(changed).encode()


def _replaced(choices, value):
    # Now and then here, and else further in.
    inside = isinstance(value, (list, dict)) and value and choices.random() < 0.85
    if not inside:
        return choices.choice(_ODD_VALUES)
    changed = value.copy()
    key = choices.choice(list(value)) if isinstance(value, dict) else choices.randrange(len(value))
    kind = choices.random()
    if kind < 0.15:
        del changed[key]
    elif kind < 0.25 and isinstance(value, list):
        changed.append(changed[key])
    else:
        changed[key] = _replaced(choices, changed[key])
    return changed


def _cut(choices, content):
    return content[: choices.randint(0, len(content))]


def _flip(choices, content):
    changed = bytearray(content)
    for _ in range(choices.randint(1, 8) if changed else 0):
        changed[choices.randrange(len(changed))] ^= 1 << choices.randrange(8)
    return bytes(changed)


def _put_in(choices, content):
    place = choices.randint(0, len(content))
    odd = choices.choice((*_ODD_BYTES, choices.randbytes(choices.randint(1, 40))))
    return content[:place] + odd + content[place:]


def _take_out(choices, content):
    first = choices.randint(0, len(content))
    return content[:first] + content[first + choices.randint(1, 60) :]


def _double(choices, content):
    first = choices.randint(0, len(content))
    last = min(len(content), first + choices.randint(1, 200))
    return content[:last] + content[first:last] + content[last:]


def _replace(choices, content):
    return choices.choice((b"", b"\0" * 50, choices.randbytes(100), b"\xff" * 20, b"PK\x03\x04garbage", b"[]", b"3"))


_CHANGES = (_cut, _flip, _flip, _put_in, _put_in, _put_in, _take_out, _double, _replace)
