"""The advisor's constants, each with the paper or the sweep that it comes from.

None of the advice's comes from MNIST-LSTM, PTB-small or Multi30k, on which results/measurements/advice.md checks it;
`tune`'s of AdamW and LARS have seen the first two.
"""

from __future__ import annotations

import math

FEW_STEPS = 700
"""Runs of fewer steps lost accuracy with every rule. results/tiny_imagenet_resnet.json: 732 steps hold the baseline
within a point, 366 lose 1.9 points; results/bert.json: 391 lose 11 points. Only the easiest problems hold it in fewer,
with a method that was tuned at the large batch: LeNet-5 on MNIST (146 steps) and the digits (112 steps)."""

ENOUGH = 0.05
"""A batch is worth using where its expected time is within this fraction of the shortest: medians repeat to that."""

END_GROWTH = 1.0
"""The noise scale grows at most in proportion to the steps: LeNet-5 at batch 64 has 770 after two epochs, 3,000 to
4,000 after six and eight (docs/why-large-batches-lose-accuracy.md)."""

UNKNOWN_GROWTH = 0.8
"""The power of the steps where only one noise scale was measured. LeNet-5 goes from about 50 at step 29 to 770 at step
1,875, a power of 0.66, and 1.1 from there on; the digits from 35 at step 42 to 490 at step 636, 0.98."""

RATE_FACTOR = 2.0
"""The largest factor between the best learning rate and the rule's. results/bert.json: of a quarter to four times
LEGW's, once is best, and half and twice lose 7 to 10 points."""

LAYERWISE_FROM = 16
"""From this factor of the tuned batch on, another optimizer may be better. docs/results/digits.md, x16: LAMB 98.4%,
LEGW 96.4%; results/tiny_imagenet_resnet.json: level with Nesterov momentum at x4."""

MUON_RATES = (0.005, 0.05)
"""The range of Muon's best learning rates in runs of few steps, with the scale 'rms'; docs/muon.md has the same range.
results/few_steps: 0.0081 on tiny-imagenet (244 steps), 0.03 on a BERT (391 steps)."""

LAMB_RATES = (0.02, 0.1)
"""The range of LAMB's best learning rates in runs of few steps. docs/results/digits.md: 0.08 on the digits' LSTM (112
steps); results/few_steps: 0.02 on tiny-imagenet (244 steps), 0.03 on a BERT (391 steps)."""

ADAMW_RATES = (0.002, 0.02)
"""The range of AdamW's best learning rates in runs of few steps. results/few_steps: 0.002 on tiny-imagenet, 0.008 on a
BERT, 0.016 on MNIST's LSTM, 0.02 on Penn Treebank."""

LARS_RATES = (1.0, 4.0)
"""The range of LARS's best learning rates in runs of few steps. docs/results: 1 on a BERT, 1.6 on AlexNet-BN, 2 on Penn
Treebank, 3.2 on a ResNet, 4 on MNIST's LSTM."""

SHAMPOO_RATES = (0.0001, 0.001)
"""The range of Shampoo's best learning rates in runs of few steps: 0.0002 on a BERT, 0.0003 on AlexNet-BN."""

RATES = {
    "muon": MUON_RATES,
    "lamb": LAMB_RATES,
    "adamw": ADAMW_RATES,
    "lars": LARS_RATES,
    "shampoo": SHAMPOO_RATES,
}
"""Of an optimizer that has no tuned recipe, the range of its learning rates; of others AdamW's."""

HEAVY_BALL = ("lars", "momentum")
"""Optimizers whose momentum adds up gradients, v = momentum v + gradient: a step is as long as learning rate / (1 -
momentum). In the others the moment is an average, or its length does not count."""

L2_IN_GRADIENT = ("lars",)
"""Optimizers that add decay x weights to the gradient: the decay belongs to the loss, and does not follow the learning
rate. On MNIST's LSTM at 8,192 with LARS, learning rate x decay x steps held is tens of times the coefficient, and lost
4.6 points: docs/results/tune.md."""

SEARCHED_RATES, WIDEST_RATES, SEARCHED_DECAYS = 4.0, 8.0, 4.0
"""`tune` searches learning rates from a fourth of the square-root rule's to four times it, at most from an eighth to
eight times; and weight decays from a fourth of the tuned learning rate x decay x steps to four times it. Where the
decay kept is less than that fourth, the range begins there."""

SEARCHED_WARMUPS = (0.02, 0.2)
"""Warm-ups that `tune` searches, as shares of the run."""

LONGEST_HALF_LIFE = 0.25
"""The longest half-life of a moment of an optimizer without a tuned recipe, as a share of the run: beta_2 0.999 reaches
back over more steps than a run of 244 has."""

WARMUP_FRACTION = 5 / 90
"""Warm-up of a recipe that has none, as a fraction of the run: Goyal et al. 2017, arXiv:1706.02677."""

FEW_STEPS_WARMUP = 0.08
"""Warm-up of Muon or LAMB in place of the tuned optimizer, as a fraction of the run: the benchmark of few steps has 5%
to 12.5%; LEGW's 40% costs Muon a point on the digits' LSTM (docs/optimizers.md)."""

LONG_WARMUP = 0.5
"""The longest warm-up, as a fraction of the run; `tfbigbatch scale` warns from here on as well."""

CONFIDENCE = 0.95
"""Confidence of the intervals of measured noise scales."""


def searched_rates(times: float) -> float:
    """The largest factor of the square-root rule's learning rate at so many times the tuned batch.

    The range goes from the learning rate kept to the linear rule's. LARS has been best near both: by docs/results at 3
    for batch 128 and 4 for 8,192 on MNIST's LSTM, at 0.32 for 128 and 3.2 for 2,048 on a ResNet.
    """
    return min(max(SEARCHED_RATES, math.sqrt(times)), WIDEST_RATES)


def rule_of(optimizer: str) -> str:
    """The scaling rule to begin with: LEGW's longer warm-up cost Muon a point on the digits' LSTM."""
    return "sqrt" if "muon" in optimizer.lower() else "legw"
