"""Scaling rules that transfer a tuned recipe to another batch size, batch ramps, and the critical batch."""
