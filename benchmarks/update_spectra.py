"""The singular values of one step's updates by several optimizers, from the same weights and gradients.

    python benchmarks/update_spectra.py --config=experiments/ptb/small.py --batch_size=80 --learning_rate=0.02 \\
      --layers='lstm_1/.*kernel' --data_dir=data/ptb_prepared --results=results/why/ptb_spectra

AdamW trains the experiment's network; beside it, SGD with momentum, AdamW, LAMB and Muon step copies of the layers
with the same gradients (`instruments.UpdateSpectra`). Writes RESULTS.md, a table of stable and effective ranks, and
RESULTS.png, the singular values over the largest at the last of the steps.
"""

import experiment_models
from absl import flags

from tfbigbatch import experiment
from tfbigbatch.utils import command

# A learning rate scales an update and leaves its spectrum, if the update is not lost in the rounding of the weights.
OPTIMIZERS = {
    "gradient": ("momentum", {"learning_rate": 1e3, "momentum": 0.0}),
    "SGD, momentum 0.9": ("momentum", {"learning_rate": 1e3, "momentum": 0.9}),
    "AdamW": ("adamw", {"learning_rate": 0.1, "beta_2": 0.99, "weight_decay": 0.0}),
    "LAMB": ("lamb", {"learning_rate": 1.0, "beta_2": 0.99, "weight_decay": 0.0}),
    "Muon": ("muon", {"learning_rate": 0.1}),
}
TRAINED_BY = {"name": "adamw", "beta_2": 0.99, "weight_decay": 0.0, "global_clipnorm": 1.0}

flags.DEFINE_string("config", None, "The experiment file.", required=True)
flags.DEFINE_string("data_dir", None, "Where the task's data lies.")
flags.DEFINE_list("override", [], "Changed fields, as model.output_bias=frequency,...")
flags.DEFINE_string("layers", "kernel", "Regular expression for the paths of the layers to compare.")
flags.DEFINE_integer("row_axes", None, "How many of a kernel's first axes are rows; all but the last where left out.")
flags.DEFINE_list("steps", ["1", "10", "50"], "The steps at which updates are measured.")
flags.DEFINE_integer("batch_size", 64, "Examples in a step.", lower_bound=1)
flags.DEFINE_float("learning_rate", 0.001, "Of the AdamW that trains the network.")
flags.DEFINE_bool("use_fake_data", False, "Made-up data of the right shape.")
flags.DEFINE_string("results", None, "Path of the results; file extensions are added.", required=True)


def measured(options):
    """Rows of step, layer, optimizer and Spectrum."""
    from tfbigbatch import instruments, optimizers

    model, batches = _model_and_batches(options)
    variables = model.network.trainable_variables
    spectra = instruments.UpdateSpectra(
        variables,
        {label: optimizers.get(name, keras="tf_keras", **fields) for label, (name, fields) in OPTIMIZERS.items()},
        layers=options.layers,
        row_axes=options.row_axes,
    )
    gradients_of = experiment_models.gradient_function(model)
    rows, steps = [], sorted(command.numbers("steps", options.steps, int))
    for step, batch in enumerate(batches, 1):
        gradients = gradients_of(batch)
        found = spectra.step(gradients, measure=step in steps)
        rows += [(step, path, name, each) for name, paths in found.items() for path, each in paths.items()]
        model.optimizer.apply_gradients(zip(gradients, variables))
    return rows


def _model_and_batches(options):
    """The model of the experiment, trained by AdamW, and its training batches."""
    config = experiment.load(options.config)
    experiment.override(config, options.override)
    config.optimizer = TRAINED_BY
    # Constant: the schedule has not moved by the last of these steps.
    config.schedule.rule, config.schedule.warmup, config.schedule.warmup_epochs = "none", "", 0.0
    config.schedule.learning_rate = options.learning_rate
    return experiment_models.model_and_batches(
        config,
        options.batch_size,
        steps=max(command.numbers("steps", options.steps, int)),
        data_dir=options.data_dir,
        use_fake_data=options.use_fake_data,
    )


def table(rows):
    """The stable and effective ranks, as Markdown: a row for each step and layer, a column for each optimizer."""
    from tfbigbatch.reports.table import Table

    ranks = {row[:3]: f"{row[3].stable_rank:.1f}, {row[3].effective_rank:.1f}" for row in rows}
    lines = [
        [path, str(len(spectrum.singular_values)), str(step), *(ranks[step, path, name] for name in OPTIMIZERS)]
        for step, path, name, spectrum in sorted(rows, key=lambda row: (row[1], row[0]))
        if name == "gradient"
    ]
    headings = ["layer", "short side", "step", *OPTIMIZERS]
    return Table(headings, lines, frozenset({"layer"})).markdown(padded=False)


def draw(path, rows, title):
    """A PNG of the normalised singular values at the last step: a panel for each layer."""
    import numpy as np

    from tfbigbatch.reports import figure_style

    last = max(step for step, *_ in rows)
    layers = list(dict.fromkeys(layer for _, layer, _, _ in rows))
    styles = figure_style.styles([{"name": name} for name in OPTIMIZERS], "gradient")
    with figure_style.figure(path, title, len(rows), panels=max(2, len(layers))) as (_, axes):
        for panel, layer in zip(axes.flat, layers):
            for step, of_layer, name, spectrum in rows:
                if step == last and of_layer == layer:
                    place = np.arange(1, len(spectrum.singular_values) + 1)
                    style = {**styles[name], "marker": ""}
                    panel.plot(place, np.maximum(spectrum.normalized, 1e-5), label=name, **style)
            panel.set_yscale("log")
            panel.set_ylim(1e-4, 1.5)
            panel.set_title(f"{layer}, step {last}", fontsize=10)
            panel.set_xlabel("number of the singular value")
            panel.set_ylabel("singular value over the largest")
            panel.grid(alpha=0.3)
            panel.legend(frameon=False, fontsize=8)
        for panel in axes.flat[len(layers) :]:
            panel.set_axis_off()


def _main(unused):
    from tfbigbatch.reports.report import make_folder
    from tfbigbatch.utils.files import write_text

    options = flags.FLAGS
    make_folder(options.results)
    rows = measured(options)
    title = f"{options.config}: singular values of one step's updates"
    lines = table(rows)
    write_text(f"{options.results}.md", f"{title}: stable rank, effective rank\n\n" + "\n".join(lines) + "\n")
    draw(f"{options.results}.png", rows, title)
    print("\n".join(lines))


if __name__ == "__main__":
    command.execute(_main)
