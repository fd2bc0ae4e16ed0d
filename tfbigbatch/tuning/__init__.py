"""The advisor: a short run measures the gradient noise scale and the speed, and says which batch is worth using."""
