"""TPU generations with their published peak rates, and slices by name.

A slice is named as a grid of chips ('v3:32x32'), by its chips ('v5e:256'), or by Google Cloud ('v3-2048').
"""

from __future__ import annotations

import math
import re
import typing
from typing import Any

from tfbigbatch.errors import InputError, nearest


class Generation(typing.NamedTuple):
    """A generation of TPUs.

    Attributes:
      dimensions: of the grid of chips.
      replicas_per_chip: TensorFlow's: the two cores of a chip are two replicas on v2 and v3, one since v4.
      named_by_cores: True if the number in Google Cloud's names counts cores, two per chip, instead of chips.
      most_chips: in one slice.
      flops: bfloat16 operations per second of a chip.
      memory_bandwidth: of a chip's main memory (HBM), bytes per second.
      all_reduce_bandwidth: a chip's part of the all-reduce bandwidth of its slice, bytes per second: the published
        figure of a pod divided by its chips, equal to the rate of all links of a chip together.
      usable_gib: of main memory, for one replica: the available HBM in libtpu 0.0.42.1's out-of-memory error.
    """

    dimensions: int
    replicas_per_chip: int
    named_by_cores: bool
    most_chips: int
    flops: float
    memory_bandwidth: float
    all_reduce_bandwidth: float
    usable_gib: float

    @property
    def usable_bytes(self) -> int:
        """Bytes of main memory that libtpu leaves to a replica's program."""
        return int(self.usable_gib * 2**30)


# Slices: cloud.google.com/tpu/docs/v2, /v3, /v4, /v5e, /v5p, /v6e, "System architecture" and "Configurations". Rates:
# the same pages; v2's of Jouppi et al. 2020, CACM 63(7), table 1, and 4 links of 496 Gb/s. All-reduce: of a pod of
# 1,024 chips (v3), 4,096 (v4) and 256 (v5e, v6e); v5p: the interconnect of a chip, 4,800 Gb/s. The two cores of v4 are
# one device.
GENERATIONS = {
    "v2": Generation(2, 2, True, 256, 46e12, 700e9, 4 * 62e9, 7.48),
    "v3": Generation(2, 2, True, 1024, 123e12, 900e9, 340e12 / 1024, 15.48),
    "v4": Generation(3, 1, True, 4096, 275e12, 1200e9, 1.1e15 / 4096, 30.75),
    "v5e": Generation(2, 1, False, 256, 197e12, 819e9, 51.2e12 / 256, 15.75),
    "v5p": Generation(3, 1, True, 8960, 459e12, 2765e9, 600e9, 95.74),
    "v6e": Generation(2, 1, False, 256, 918e12, 1640e9, 102.4e12 / 256, 31.25),
}
# In slices of several hosts.
_CHIPS_PER_HOST = 4
_OTHER_NAMES = {"v5litepod": "v5e", "v5lite": "v5e", "v5": "v5p"}
_FORM = re.compile(r"(v\w+?)(?:(?P<mark>[-:])(?P<size>\d+(?:x\d+)*))?$")


class Topology(typing.NamedTuple):
    """A slice.

    Attributes:
      generation: 'v2' to 'v6e'.
      grid: chips along each dimension.
    """

    generation: str
    grid: tuple[int, ...]

    @property
    def chips(self) -> int:
        """Number of chips."""
        return math.prod(self.grid)

    @property
    def replicas(self) -> int:
        """Number of replicas with TensorFlow."""
        return self.chips * GENERATIONS[self.generation].replicas_per_chip

    @property
    def hosts(self) -> int:
        """Number of hosts."""
        return -(-self.chips // _CHIPS_PER_HOST)

    @property
    def name(self) -> str:
        """libtpu's name, such as 'v3:32x32'."""
        return f"{self.generation}:{'x'.join(map(str, self.grid))}"

    @property
    def libtpu_options(self) -> dict[str, Any]:
        """Further arguments of JAX's `get_topology_desc`."""
        # The two cores of a v4 chip are one device, as in TensorFlow; a host has 2 x 2 chips by default.
        options: dict[str, Any] = {"chip_config_name": "megacore"} if self.generation == "v4" else {}
        if min(self.grid[:2]) < 2:
            return {**options, "chips_per_host_bounds": [1, 1, 1]}
        return options

    @property
    def accelerator_type(self) -> str:
        """Google Cloud's name, such as 'v3-2048'."""
        found = GENERATIONS[self.generation]
        name = "v5litepod" if self.generation == "v5e" else self.generation
        return f"{name}-{self.chips * (2 if found.named_by_cores else 1)}"


def parse(text: str) -> Topology:
    """Parses a slice's name: a grid ('v3:4x4', 'v4:2x2x4'), chips ('v5e:256') or Google Cloud's ('v3-2048').

    Raises:
      ValueError: malformed name, or no such slice.
    """
    matched = _FORM.match(text.strip().lower())
    name = _OTHER_NAMES.get(matched[1], matched[1]) if matched else None
    if not matched or not matched["size"]:
        raise _wrong(text, "expected a slice such as v3:32x32, v5e:256 or v3-2048")
    if name not in GENERATIONS:
        raise _wrong(text, f"unknown generation {matched[1]!r}. {nearest(matched[1], GENERATIONS)}")
    generation = GENERATIONS[name]
    sizes = tuple(int(size) for size in matched["size"].split("x"))
    if matched["mark"] == "-":
        if len(sizes) > 1:
            raise _wrong(text, f"expected a grid after a colon, such as {name}:{matched['size']}")
        [count] = sizes
        if generation.named_by_cores and count % 2:
            raise _wrong(text, f"the number counts cores on {name}, two per chip; expected an even number")
        sizes = (count // 2 if generation.named_by_cores else count,)
    grid = _grid(sizes[0], generation.dimensions) if len(sizes) == 1 else sizes
    if grid is None:
        most = 1 << (generation.most_chips.bit_length() - 1)
        raise _wrong(text, f"no slice has this number of chips; expected a power of two, at most {most}")
    if len(grid) == 2 and generation.dimensions == 3:
        grid = (*grid, 1)
    if len(grid) != generation.dimensions or min(grid) < 1:
        raise _wrong(text, f"a slice of {name} is a grid of {generation.dimensions} dimensions")
    if math.prod(grid) > generation.most_chips:
        raise _wrong(text, f"a slice of {name} has at most {generation.most_chips} chips")
    return Topology(name, grid)


def with_chips(generation: str, chips: int) -> Topology | None:
    """The slice of this many chips that is nearest to a cube or square; None if there is none."""
    grid = _grid(chips, GENERATIONS[generation].dimensions)
    return None if grid is None or chips > GENERATIONS[generation].most_chips else Topology(generation, grid)


def _grid(chips: int, dimensions: int) -> tuple[int, ...] | None:
    """A power of two as a grid with sides as equal as possible, ascending; None for another number."""
    power = chips.bit_length() - 1
    if chips < 1 or 1 << power != chips:
        return None
    sides = [1 << ((power + axis) // dimensions) for axis in range(dimensions)]
    # A host of four chips is 2 x 2 x 1: small slices are flat.
    return tuple(sorted(sides, reverse=True)) if dimensions == 3 and chips < 8 else tuple(sides)


def _wrong(text: str, why: str) -> InputError:
    return InputError(f"--topology={text}: {why}.")
