"""Workers of a cluster: discovery, lost workers, preemption."""
