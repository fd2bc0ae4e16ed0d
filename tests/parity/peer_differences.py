"""The tests of the peers that fail on our optimizers by design: for each suite, pairs of a reason and the tests."""

from __future__ import annotations

_STEPS = (
    "`iterations` counts steps and `_iterations` is the same counter; the sum over micro-batches is in another private "
    "attribute than Keras' `_accumulated_gradients`:"
)
_AMSGRAD = "LAMB has no `amsgrad`:"

EXPECTED: dict[str, list[tuple[str, list[str]]]] = {
    "keras/lamb_test": [
        (
            "The decay is inside the trust ratio, as in the paper (docs/migration.md):",
            ["LambTest.test_weight_decay"],
        ),
    ],
    "keras/optimizer_test": [
        (
            _STEPS,
            [
                "OptimizerTest.test_gradient_accumulation",
                "OptimizerTest.test_overwrite_with_gradient_with_gradient_accumulation",
            ],
        ),
    ],
    "keras/optimizer_sparse_test": [
        (
            "A sparse gradient becomes dense, as the norms are of the whole layer; the weights are the same:",
            [
                "OptimizerSparseTest.test_sparse_gradients_sgd",
                "OptimizerSparseTest.test_sparse_gradients_loss_scale_optimizer_sgd",
            ],
        ),
        (
            _AMSGRAD,
            [
                f"OptimizerSparseTest.{test}_{optimizer}_amsgrad"
                for test in ("test_sparse_gradients", "test_sparse_correctness")
                for optimizer in ("adam", "adamw")
            ],
        ),
    ],
    "keras/loss_scale_optimizer_test": [
        (
            "`LossScaleOptimizer` takes the optimizers of this package only; the config has Keras' own SGD inside:",
            ["LossScaleOptimizerTest.test_deserialization_backwards_compatibility"],
        ),
    ],
    "tf_keras/optimizer_test": [
        (
            "Private names of Adam's state, `_momentums` and `_velocities`:",
            [
                "OptimizerFuntionalityTest.testApplyGradientsNameArg",
                "OptimizerFuntionalityTest.testCheckpointOptimizer",
            ],
        ),
        (
            "The private `_clip_gradients` does not clip: clipping follows the sum over replicas and micro-batches:",
            [f"OptimizerFuntionalityTest.testClip{kind}" for kind in ("GlobalNorm", "Norm", "Value")],
        ),
        (_AMSGRAD, ["OptimizerFuntionalityTest.testGetAndFromConfig", "OptimizerRegressionTest.testAdam"]),
        (
            "`decay` is refused, in words of our own:",
            ["OptimizerFuntionalityTest.testPassingLegacyArgsRaiseError"],
        ),
        ("`weight_decay=None` is 0:", ["OptimizerFuntionalityTest.testPassingMissingWDError"]),
        (
            "The state's names begin with the optimizer's own name, `LAMB`:",
            ["OptimizerFuntionalityTest.testReturnAllOptimizerVariables"],
        ),
        (
            "A gradient of another shape than its variable's is refused; the test gives one of [1] for [1, 1]:",
            ["OptimizerFuntionalityTest.testVariableConstraints"],
        ),
    ],
    "tensorflow-addons/lamb_test": [
        (
            "`decay` is refused, as by Keras' optimizers since 2.11; an `InverseTimeDecay` does the same:",
            [f"test_basic_with_learning_rate_decay[{mode}]" for mode in ("eager", "function")],
        ),
        (
            "The older name `weight_decay_rate` is refused with the name of today:",
            ["test_weight_decay_rate_deprecation"],
        ),
    ],
}
