"""Layout of TensorBoard's custom-scalars page: the instruments' scalars, grouped in charts."""

from __future__ import annotations

from typing import Any

# Category to (title of a chart, regular expressions of its tags).
CHARTS = {
    "Gradient noise": (
        ("critical batch size, and its interval (examples)", [r"noise_scale/(critical_batch_size|low|high)"]),
        ("|G|^2", [r"noise_scale/squared_norm"]),
        ("tr(Sigma)", [r"noise_scale/trace"]),
    ),
    "Sharpness": (
        ("largest Hessian eigenvalues", [r"sharpness/eigenvalue_\d+"]),
        ("trace of the Hessian, and its standard error", [r"sharpness/trace(_error)?"]),
        ("rise of the loss at the radius", [r"sharpness/rise"]),
        ("loss and gradient norm on the probe", [r"sharpness/(loss|gradient_norm)"]),
    ),
    "Layers": (
        ("trust ratio", [r"layers/trust_ratio/.*"]),
        ("update to weight ratio", [r"layers/update_to_weight/.*"]),
        ("weight norm", [r"layers/weight_norm/.*"]),
        ("gradient norm", [r"layers/gradient_norm/.*"]),
        ("update norm", [r"layers/update_norm/.*"]),
    ),
}


def layout() -> Any:
    """The layout as a tensorboard.plugins.custom_scalar.layout_pb2.Layout."""
    # Part of TensorFlow's dependencies; needed for writing events only.
    from tensorboard.plugins.custom_scalar import layout_pb2

    return layout_pb2.Layout(
        category=[
            layout_pb2.Category(
                title=category,
                chart=[
                    # TensorBoard matches an expression at the beginning of a tag.
                    layout_pb2.Chart(
                        title=title, multiline=layout_pb2.MultilineChartContent(tag=[f"{tag}$" for tag in tags])
                    )
                    for title, tags in charts
                ],
            )
            for category, charts in CHARTS.items()
        ]
    )
