"""Losses of runs that were never trained, for the tests of what reads them."""

from tfbigbatch.reports.losses import LossCurve, RunLoss


def run_loss(
    row,
    batch_size,
    bias=None,
    twin=None,
    *,
    seed=0,
    line=4.5,
    losses=(5.0, 4.0, 3.0),
    train=3.0,
    held_out=3.2,
):
    steps = list(range(1, len(losses) + 1))
    curve = LossCurve(steps, losses)
    return RunLoss(row, batch_size, seed, len(steps), bias, twin, line, curve, train, held_out)
