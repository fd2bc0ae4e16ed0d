"""TPU slices by name: a grid of chips ('v3:32x32'), chips ('v5e:256') or Google Cloud's names ('v3-2048')."""

from __future__ import annotations

import math
import re
import typing
from typing import Any

from tfbigbatch.errors import InputError, nearest


class Generation(typing.NamedTuple):
    """The slices of a generation.

    Attributes:
      dimensions: of the grid of chips.
      replicas_per_chip: TensorFlow's: the two cores of a chip are two replicas on v2 and v3, one since v4.
      named_by_cores: whether the number in Google Cloud's names counts cores, two per chip; else chips.
      most_chips: in one slice.
      chips_per_host: in slices of several hosts.
    """

    dimensions: int
    replicas_per_chip: int
    named_by_cores: bool
    most_chips: int
    chips_per_host: int


# Google Cloud's documentation: cloud.google.com/tpu/docs/v2, /v3, /v4, /v5e, /v5p, /v6e, "System architecture" and
# "Configurations".
GENERATIONS = {
    "v2": Generation(2, 2, True, 256, 4),
    "v3": Generation(2, 2, True, 1024, 4),
    "v4": Generation(3, 1, True, 4096, 4),
    "v5e": Generation(2, 1, False, 256, 4),
    "v5p": Generation(3, 1, True, 8960, 4),
    "v6e": Generation(2, 1, False, 256, 4),
}
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
        """Number of hosts, with the chips per host of larger slices."""
        return -(-self.chips // GENERATIONS[self.generation].chips_per_host)

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
        raise _wrong(text, f"no slice has this number of chips; expected a power of two, at most {_most(generation)}")
    if len(grid) == 2 and generation.dimensions == 3:
        grid = (*grid, 1)
    if len(grid) != generation.dimensions or min(grid) < 1:
        raise _wrong(text, f"a slice of {name} is a grid of {generation.dimensions} dimensions")
    if math.prod(grid) > generation.most_chips:
        raise _wrong(text, f"a slice of {name} has at most {generation.most_chips} chips")
    return Topology(name, grid)


def of_chips(generation: str, chips: int) -> Topology | None:
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


def _most(generation: Generation) -> int:
    return 1 << (generation.most_chips.bit_length() - 1)


def _wrong(text: str, why: str) -> InputError:
    return InputError(f"--topology={text}: {why}.")
