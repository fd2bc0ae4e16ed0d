"""Scaling rules that transfer a tuned recipe to another batch size, batch ramps, and DATE, which adapts the warm-up.

`Recipe` and `BatchRamp` are names of `tfbigbatch`.
"""

from __future__ import annotations

from tfbigbatch import lazy_names

__all__ = ["DATE"]
__getattr__, __dir__ = lazy_names.of(__name__, {"DATE": "date"})
