"""TFRecord frames and tf.train.Example without TensorFlow, whose import costs a process seconds and 400 MB.

A frame is the record's length (8 bytes, little-endian), the length's masked CRC-32C (4), the record, and
its masked CRC-32C (4).
"""

import array
import functools
import struct

import google_crc32c
import numpy as np

LENGTH, CHECKSUM = struct.Struct("<Q"), struct.Struct("<I")
HEADER_BYTES, FOOTER_BYTES = LENGTH.size + CHECKSUM.size, CHECKSUM.size
_VARINT, _EIGHT_BYTES, _DELIMITED, _FOUR_BYTES = 0, 1, 2, 5  # the wire types of protocol buffers


class Varints(bytes):
    """Several int64 as they lie in a feature: those below 128 are a byte each."""


def framed(record: bytes) -> bytes:
    """The bytes of a record in a TFRecord file."""
    return b"".join((_header(len(record)), record, CHECKSUM.pack(masked_crc32c(record))))


def unframed(frame: bytes) -> bytes:
    """The record in a frame; empty bytes for a frame that is damaged, cut off or empty."""
    record = frame[HEADER_BYTES:-FOOTER_BYTES]
    return record if frame == framed(record) else b""


@functools.lru_cache(4096)
def _header(size):
    length = LENGTH.pack(size)
    return length + CHECKSUM.pack(masked_crc32c(length))


def example(features):
    """A serialized tf.train.Example; the same features give the same bytes.

    Args:
      features: dictionary from names to bytes or int, each a feature of one value; or to a list of int, Varints,
        or an array.array of floats ("f"), each a feature of as many.
    """
    return example_of(entry(name, value) for name, value in sorted(features.items()))


def example_of(entries):
    """A serialized tf.train.Example of some `entry`s, in the order of their names."""
    return _field(1, b"".join(entries))


def entry(name, value):
    """A feature of an example, by itself; see `example`."""
    return _field(1, _name(name) + _field(2, _feature(value)))


def parsed(record):
    """The features of a serialized tf.train.Example, one by one; large values are not read.

    Args:
      record: memoryview of bytes.

    Yields:
      (name, value): the first value of each feature, a memoryview for bytes and an int for int64; None
      where it has none, or is of floats.

    Raises:
      ValueError: it is not an Example.
    """
    return _of_features(record, _first_value)


def counted(record):
    """As `parsed`, with how many values each feature has: (name, number)."""
    return _of_features(record, _count)


def _of_features(record, read):
    """(name, read(feature)) of each feature."""
    try:
        for number, features in _fields(record):
            if number == 1:
                for _, entry in _fields(features):
                    # A name or a feature that is empty may be left out.
                    parts = dict(_fields(entry))
                    yield str(parts.get(1, b""), "utf-8"), read(parts.get(2, b""))
    except (IndexError, TypeError) as error:
        raise ValueError(f"no tf.train.Example: {error}") from None


def masked_crc32c(data: bytes) -> int:
    """The checksum in a TFRecord's frame: CRC-32C (RFC 3720), rotated and offset by a constant."""
    checksum = google_crc32c.value(data)
    return ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _feature(value):
    """A tf.train.Feature."""
    if isinstance(value, list):
        value = Varints(b"".join(map(_VARINTS.__getitem__, value)))
    if isinstance(value, Varints):
        return _field(3, _field(1, value))
    if isinstance(value, bytes):
        return _field(1, _field(1, value))
    if isinstance(value, array.array):
        return _field(2, _field(1, value.tobytes()))
    return _field(3, _field(1, _VARINTS[value]))


def _field(number, content):
    return _VARINTS[number << 3 | _DELIMITED] + _VARINTS[len(content)] + content


@functools.lru_cache(256)
def _name(name):
    return _field(1, name.encode())


def varints_of_rows(values):
    """The Varints of each row of an integer array of [n, m], none negative: a whole array at little more than a row."""
    largest = int(values.max(initial=0))
    width = max(1, -(-largest.bit_length() // 7))
    values = values.astype(np.int32) if largest < 1 << 31 else values
    content, there = np.empty((*values.shape, width), np.uint8), np.ones((*values.shape, width), bool)
    for place in range(width):
        # Seven bits a byte, the lowest first; the eighth says that more follow.
        content[:, :, place] = values & 0x7F
        values = values >> 7
        more = values > 0
        content[:, :, place] |= more.view(np.uint8) << 7
        there[:, :, place + 1 :] &= more[:, :, None]
    content = content[there].tobytes()
    ends = np.cumsum(there.sum(axis=(1, 2))).tolist()
    return [Varints(content[first:last]) for first, last in zip([0, *ends], ends)]


class _VarintOf(dict):
    """Varints by their values, remembered for small ones: a vocabulary's ids."""

    def __missing__(self, value):
        encoded = _varint(value)
        if 0 <= value < 1 << 18:
            self[value] = encoded
        return encoded


_VARINTS = _VarintOf()


def _varint(value):
    value &= (1 << 64) - 1  # a negative one as its two's complement
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _fields(message):
    """(number, value) of each field of a message: an int of a varint, else a memoryview."""
    position = 0
    while position < len(message):
        key, position = _read_varint(message, position)
        kind = key & 7
        if kind == _VARINT:
            value, position = _read_varint(message, position)
        elif kind in (_EIGHT_BYTES, _FOUR_BYTES, _DELIMITED):
            size = {_EIGHT_BYTES: 8, _FOUR_BYTES: 4}.get(kind)
            if size is None:
                size, position = _read_varint(message, position)
            value, position = message[position : position + size], position + size
            if position > len(message):
                raise ValueError("no tf.train.Example: a field is longer than what holds it")
        else:
            raise ValueError(f"no tf.train.Example: a field of wire type {kind}")
        yield key >> 3, value


def _read_varint(message, position):
    value = shift = 0
    while True:
        byte = message[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return value, position
        # Ten bytes hold 64 bits. One that goes on for megabytes would be put together for minutes.
        if shift >= 70:
            raise ValueError("no tf.train.Example: a number of more than 64 bits")


def _first_value(feature):
    """The first value of a tf.train.Feature: bytes as a memoryview, int64 as an int, None for another."""
    for number, values in _fields(feature):
        for _, value in _fields(values):
            if number == 3:
                # Several varints in one field where they are packed, as they are by default.
                value = value if isinstance(value, int) else _read_varint(value, 0)[0]
                return value - (1 << 64) if value >> 63 else value
            return value if number == 1 else None
    return None


def _count(feature):
    """How many values a tf.train.Feature has."""
    found = 0
    for number, values in _fields(feature):
        for _, value in _fields(values):
            if number == 3 and not isinstance(value, int):
                # The last byte of a varint has no high bit.
                found += int(np.count_nonzero(np.frombuffer(value, np.uint8) < 0x80))
            else:
                found += len(value) // 4 if number == 2 else 1
    return found
