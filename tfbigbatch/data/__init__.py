"""Input pipelines, one per data set family; the order of examples is a function of (seed, step)."""
