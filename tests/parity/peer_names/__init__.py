"""Our optimizers under the names that the peers' own test files use; see `tests/parity/peer_suites.py`.

`SGD`, `Adam` and `AdamW` are LARS and LAMB with every layer excluded from the adaptation: LARS without a trust ratio is
SGD with momentum, and LAMB is AdamW. So the numbers in a peer's tests of SGD and Adam hold for ours, and what the tests
are about (clipping, averages, constraints, accumulation, saving) runs through our code.
"""
