"""Rules that carry a tuned recipe from one batch size to another."""

from tfbigbatch.scaling.recipe import RULES, Recipe

__all__ = ["RULES", "Recipe"]
