"""Published peak rates of TPU chips, and the memory that libtpu leaves to a program."""

from __future__ import annotations

import typing


class Chip(typing.NamedTuple):
    """The peak rates of one chip.

    Attributes:
      flops: bfloat16 operations per second.
      memory_bandwidth: of main memory (HBM), bytes per second.
      all_reduce_bandwidth: a chip's part of the all-reduce bandwidth of its slice, bytes per second: the published
        figure of a pod divided by its chips, equal to the rate of all links of a chip together.
      usable_bytes: of main memory, for one replica.
      source: of the rates.
    """

    flops: float
    memory_bandwidth: float
    all_reduce_bandwidth: float
    usable_bytes: int
    source: str


_GIB = 2**30
# Usable memory: the available HBM in libtpu 0.0.42.1's out-of-memory error; for v4 with its two cores as one device.
CHIPS = {
    "v2": Chip(
        46e12, 700e9, 4 * 62e9, int(7.48 * _GIB), "Jouppi et al. 2020, CACM 63(7), table 1; 4 links of 496 Gb/s"
    ),
    "v3": Chip(
        123e12,
        900e9,
        340e12 / 1024,
        int(15.48 * _GIB),
        "cloud.google.com/tpu/docs/v3; all-reduce bandwidth of a pod over 1,024 chips",
    ),
    "v4": Chip(
        275e12,
        1200e9,
        1.1e15 / 4096,
        int(30.75 * _GIB),
        "cloud.google.com/tpu/docs/v4; all-reduce bandwidth of a pod over 4,096 chips",
    ),
    "v5e": Chip(
        197e12,
        819e9,
        51.2e12 / 256,
        int(15.75 * _GIB),
        "cloud.google.com/tpu/docs/v5e; all-reduce bandwidth of a pod over 256 chips",
    ),
    "v5p": Chip(
        459e12, 2765e9, 600e9, int(95.74 * _GIB), "cloud.google.com/tpu/docs/v5p; interconnect of a chip, 4,800 Gb/s"
    ),
    "v6e": Chip(
        918e12,
        1640e9,
        102.4e12 / 256,
        int(31.25 * _GIB),
        "cloud.google.com/tpu/docs/v6e; all-reduce bandwidth of a pod over 256 chips",
    ),
}
