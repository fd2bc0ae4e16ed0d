"""TPU generations, and slices by name.

A slice is named as a grid of chips ('v3:32x32'), by its chips ('v5e:256'), or by Google Cloud ('v3-2048').
"""

from __future__ import annotations

import math
import re
import typing
from typing import Any

from tfbigbatch.errors import InputError


class Generation(typing.NamedTuple):
    """A generation of TPUs.

    Attributes:
      dimensions: of the grid of chips.
      replicas_per_chip: TensorFlow's: the two cores of a chip are two replicas on v2 and v3, one since v4.
      named_by_cores: True if the number in Google Cloud's names counts cores, two per chip, instead of chips.
      most_chips: in one slice.
      usable_gib: of main memory, for one replica: the available HBM in libtpu 0.0.42.1's out-of-memory error.
    """

    dimensions: int
    replicas_per_chip: int
    named_by_cores: bool
    most_chips: int
    usable_gib: float


# cloud.google.com/tpu/docs/v2, /v3, /v4, /v5e, /v5p, /v6e, "System architecture" and "Configurations". The two cores of
# v4 are one device.
GENERATIONS = {
    "v2": Generation(2, 2, True, 256, 7.48),
    "v3": Generation(2, 2, True, 1024, 15.48),
    "v4": Generation(3, 1, True, 4096, 30.75),
    "v5e": Generation(2, 1, False, 256, 15.75),
    "v5p": Generation(3, 1, True, 8960, 95.74),
    "v6e": Generation(2, 1, False, 256, 31.25),
}
_OTHER_NAMES = {"v5litepod": "v5e", "v5lite": "v5e", "v5": "v5p"}
_FORM = re.compile(r"(?P<name>v\w+?)(?:-(?P<number>\d+)|:(?P<grid>\d+(?:x\d+)*))$")


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
    name = _OTHER_NAMES.get(matched["name"], matched["name"]) if matched else ""
    if not matched or name not in GENERATIONS:
        raise InputError(
            f"--topology={text}: expected a slice of {', '.join(GENERATIONS)}: a grid of chips, such as v3:32x32, a "
            "number of them, such as v5e:256, or Google Cloud's name, such as v3-2048."
        )
    generation = GENERATIONS[name]
    sizes = [int(size) for size in (matched["number"] or matched["grid"]).split("x")]
    cores = 2 if matched["number"] and generation.named_by_cores else 1
    found: Topology | None = Topology(name, tuple(sizes + [1] * (generation.dimensions - max(2, len(sizes)))))
    if len(sizes) == 1:
        found = with_chips(name, sizes[0] // cores) if sizes[0] % cores == 0 else None
    if found is None or len(found.grid) != generation.dimensions or not 1 <= found.chips <= generation.most_chips:
        raise InputError(
            f"--topology={text}: no slice of {name}; expected a grid of {generation.dimensions} dimensions, or a power "
            f"of two of {'cores (two per chip)' if cores == 2 else 'chips'}; at most {generation.most_chips:,} chips."
        )
    return found


def with_chips(generation: str, chips: int) -> Topology | None:
    """The slice of this many chips that is nearest to a cube or square; None if there is none."""
    found, power = GENERATIONS[generation], chips.bit_length() - 1
    if not 1 <= chips <= found.most_chips or 1 << power != chips:
        return None
    sides = [1 << ((power + axis) // found.dimensions) for axis in range(found.dimensions)]
    # A host of four chips is 2 x 2 x 1: small slices are flat.
    return Topology(generation, tuple(sorted(sides, reverse=True) if found.dimensions == 3 and chips < 8 else sides))
