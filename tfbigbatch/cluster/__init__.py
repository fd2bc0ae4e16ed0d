"""Clusters: who the workers of a run are, and what becomes of the run when one of them dies."""
