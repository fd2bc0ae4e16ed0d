"""The networks in plain JAX: one jitted step, its state donated."""

import functools

import jax
import jax.numpy as jnp
import networks
from jax import lax


class Parameters(dict):
    """Weights by name, as [..., inputs, outputs]; filled with `networks.pattern`."""

    def matrix(self, name, *shape):
        self[name] = jnp.asarray(networks.pattern(shape, vector=False))

    def vector(self, name, *shape):
        self[name] = jnp.asarray(networks.pattern(shape, vector=True))

    def dense(self, name, inputs, outputs):
        self.matrix(f"{name}/kernel", inputs, outputs)
        self.vector(f"{name}/bias", outputs)

    def norm(self, name, width):
        self.vector(f"{name}/gamma", width)
        self.vector(f"{name}/beta", width)

    def lstm(self, name, inputs, units):
        self.matrix(f"{name}/kernel", inputs, 4 * units)
        self.matrix(f"{name}/recurrent", units, 4 * units)
        self.vector(f"{name}/bias", 4 * units)


def _dense(p, name, x):
    return x @ p[f"{name}/kernel"] + p[f"{name}/bias"]


def _cross_entropy(logits, labels, smoothing=0.0):
    """Nats of each label, in float32."""
    logs = jax.nn.log_softmax(logits.astype(jnp.float32))
    nats = -jnp.take_along_axis(logs, labels[..., None], axis=-1)[..., 0]
    return (1 - smoothing) * nats - smoothing * logs.mean(-1) if smoothing else nats


def _lstm(p, name, x, state=None):
    """Outputs [n, T, units] and the last (output, cell); the inputs' products are outside the loop."""
    kernel, recurrent, bias = (p[f"{name}/{part}"] for part in ("kernel", "recurrent", "bias"))
    units = recurrent.shape[0]
    state = state or (jnp.zeros((x.shape[0], units)),) * 2

    def step(state, given):
        output, cell = state
        into, forget, candidate, out = jnp.split(given + output @ recurrent, 4, axis=-1)
        cell = jax.nn.sigmoid(forget) * cell + jax.nn.sigmoid(into) * jnp.tanh(candidate)
        output = jax.nn.sigmoid(out) * jnp.tanh(cell)
        return (output, cell), output

    state, outputs = lax.scan(step, state, (x @ kernel + bias).swapaxes(0, 1))
    return outputs.swapaxes(0, 1), state


# ------------------------------------------------------------------------------------------------- MNIST-LSTM


def _mnist_lstm(sizes):
    p, hidden = Parameters(), sizes["hidden"]
    p.dense("projection", sizes["columns"], hidden)
    p.lstm("lstm", hidden, hidden)
    p.dense("logits", hidden, sizes["classes"])

    def loss(p, batch, carried):
        rows = _dense(p, "projection", batch["images"].astype(jnp.float32) / 255)
        _, (last, _) = _lstm(p, "lstm", rows)
        return _cross_entropy(_dense(p, "logits", last), batch["labels"]).mean(), carried

    return p, loss, ()


# ------------------------------------------------------------------------------------------- language model


def _language_model(sizes, batch_size):
    p, hidden = Parameters(), sizes["hidden"]
    p.matrix("embedding", sizes["vocabulary"], hidden)
    for layer in range(sizes["layers"]):
        p.lstm(f"lstm_{layer}", hidden, hidden)
    p.dense("logits", hidden, sizes["vocabulary"])

    def loss(p, batch, carried):
        values, after = p["embedding"][batch["tokens"]], []
        for layer, state in enumerate(carried):
            values, state = _lstm(p, f"lstm_{layer}", values, state)
            after.append(state)
        return _cross_entropy(_dense(p, "logits", values), batch["labels"]).mean(), after

    # Not one array twice: what is donated may be given once.
    carried = [tuple(jnp.zeros((batch_size, hidden)) for _ in "oc") for _ in range(sizes["layers"])]
    return p, loss, carried


# ------------------------------------------------------------------------------------------------- ResNet-50


def _resnet50(sizes):
    p = Parameters()

    def convolution(name, size, inputs, filters):
        p.matrix(f"{name}/kernel", size, size, inputs, filters)
        p.norm(name, filters)

    convolution("stem", 7, 3, 64)
    inputs = 64
    for stage, (blocks, width) in enumerate(networks.STAGES):
        for block in range(blocks):
            name = f"{stage}_{block}"
            if block == 0:
                convolution(f"{name}_shortcut", 1, inputs, 4 * width)
            convolution(f"{name}_1", 1, inputs, width)
            convolution(f"{name}_2", 3, width, width)
            convolution(f"{name}_3", 1, width, 4 * width)
            inputs = 4 * width
    p.dense("logits", inputs, sizes["classes"])
    averages = {
        name.removesuffix("/gamma"): (jnp.zeros_like(value), jnp.ones_like(value))
        for name, value in p.items()
        if name.endswith("/gamma")
    }

    def loss(p, batch, averages):
        dtype, averages = p["logits/kernel"].dtype, dict(averages)
        dimensions = ("NHWC", "HWIO", "NHWC")

        def normalized(x, name, stride=1):
            kernel = p[f"{name}/kernel"]
            pad = kernel.shape[0] // 2
            x = lax.conv_general_dilated(x, kernel, (stride, stride), [(pad, pad)] * 2, dimension_numbers=dimensions)
            values = x.astype(jnp.float32)
            mean = values.mean((0, 1, 2))
            variance = (values * values).mean((0, 1, 2)) - mean * mean
            means, variances = averages[name]
            averages[name] = 0.9 * means + 0.1 * mean, 0.9 * variances + 0.1 * variance
            scale = p[f"{name}/gamma"].astype(jnp.float32) * lax.rsqrt(variance + 1e-5)
            return (values * scale + (p[f"{name}/beta"].astype(jnp.float32) - mean * scale)).astype(dtype)

        x = batch["images"].astype(jnp.float32) - jnp.array(networks.CHANNEL_MEANS)
        x = (x / jnp.array(networks.CHANNEL_DEVIATIONS)).astype(dtype)
        x = jax.nn.relu(normalized(x, "stem", 2))
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
        for stage, (blocks, _) in enumerate(networks.STAGES):
            for block in range(blocks):
                name, stride = f"{stage}_{block}", 2 if stage and not block else 1
                shortcut = x if block else normalized(x, f"{name}_shortcut", stride)
                x = jax.nn.relu(normalized(x, f"{name}_1"))
                x = jax.nn.relu(normalized(x, f"{name}_2", stride))
                x = jax.nn.relu(normalized(x, f"{name}_3") + shortcut)
        pooled = x.astype(jnp.float32).mean((1, 2))
        logits = pooled @ p["logits/kernel"].astype(jnp.float32) + p["logits/bias"].astype(jnp.float32)
        return _cross_entropy(logits, batch["labels"]).mean(), averages

    return p, loss, averages


# ------------------------------------------------------------------------------------------------------ BERT


def _layer_norm(p, name, x):
    values = x.astype(jnp.float32)
    values = jax.nn.standardize(values, epsilon=1e-12)
    return (values * p[f"{name}/gamma"] + p[f"{name}/beta"]).astype(x.dtype)


def _bert(sizes):
    p, hidden = Parameters(), sizes["hidden"]
    for name, rows in (("words", sizes["vocabulary"]), ("positions", sizes["positions"]), ("types", 2)):
        p.matrix(name, rows, hidden)
    p.norm("embeddings", hidden)
    for layer in range(sizes["layers"]):
        for part in ("query", "key", "value", "output"):
            p.dense(f"{layer}_{part}", hidden, hidden)
        p.norm(f"{layer}_attention", hidden)
        p.dense(f"{layer}_inner", hidden, 4 * hidden)
        p.dense(f"{layer}_outer", 4 * hidden, hidden)
        p.norm(f"{layer}_dense", hidden)
    p.dense("pooler", hidden, hidden)
    p.dense("next", hidden, 2)
    p.dense("masked", hidden, hidden)
    p.norm("masked_norm", hidden)
    p.vector("masked_bias", sizes["vocabulary"])

    def attention(p, layer, x, mask):
        n, length, _ = x.shape

        def split(part):
            return _dense(p, f"{layer}_{part}", x).reshape(n, length, sizes["heads"], -1)

        attended = jax.nn.dot_product_attention(split("query"), split("key"), split("value"), mask=mask)
        return _dense(p, f"{layer}_output", attended.reshape(n, length, hidden))

    def loss(p, batch, carried):
        x = p["words"][batch["words"]] + p["positions"][: batch["words"].shape[1]] + p["types"][batch["types"]]
        x = _layer_norm(p, "embeddings", x)
        mask = batch["mask"].astype(bool)[:, None, None]
        for layer in range(sizes["layers"]):
            x = _layer_norm(p, f"{layer}_attention", x + attention(p, layer, x, mask))
            inner = jax.nn.gelu(_dense(p, f"{layer}_inner", x), approximate=True)
            x = _layer_norm(p, f"{layer}_dense", x + _dense(p, f"{layer}_outer", inner))
        picked = jnp.take_along_axis(x, batch["masked_positions"][..., None], axis=1)
        picked = _layer_norm(p, "masked_norm", jax.nn.gelu(_dense(p, "masked", picked), approximate=True))
        words = _cross_entropy(picked @ p["words"].T + p["masked_bias"], batch["masked_labels"]).mean()
        follows = _dense(p, "next", jnp.tanh(_dense(p, "pooler", x[:, 0])))
        return words + _cross_entropy(follows, batch["next_labels"]).mean(), carried

    return p, loss, ()


# ------------------------------------------------------------------------------------------------------ GNMT


def _gnmt(sizes):
    p, hidden = Parameters(), sizes["hidden"]
    p.matrix("embedding", sizes["vocabulary"], hidden)
    for name, inputs in (("forward", 1), ("backward", 1), ("decoder_0", 1), ("decoder_1", 3)):
        p.lstm(name, inputs * hidden, hidden)
    p.matrix("query", hidden, hidden)
    p.matrix("key", 2 * hidden, hidden)
    p.vector("v", hidden)
    p.vector("gamma")
    p.vector("bias", hidden)
    p.dense("logits", hidden, sizes["vocabulary"])

    def attend(p, query, memory, mask):
        keys = memory @ p["key"] + p["bias"]
        pairs = jnp.tanh((query @ p["query"])[:, :, None] + keys[:, None])
        scores = pairs @ (p["gamma"] * p["v"] * lax.rsqrt((p["v"] ** 2).sum()))
        weights = jax.nn.softmax(jnp.where(mask[:, None], scores, jnp.finfo(scores.dtype).min))
        return weights @ memory

    def loss(p, batch, carried):
        source, target = p["embedding"][batch["source"]], p["embedding"][batch["target"]]
        lengths, length = batch["lengths"][:, None], batch["source"].shape[1]
        order = jnp.arange(length)
        # Each sentence reversed within its length: padding stays last.
        reverse = jnp.where(order < lengths, lengths - 1 - order, order)[..., None]
        turned, _ = _lstm(p, "backward", jnp.take_along_axis(source, reverse, axis=1))
        onward, _ = _lstm(p, "forward", source)
        memory = jnp.concatenate([onward, jnp.take_along_axis(turned, reverse, axis=1)], axis=-1)
        values, _ = _lstm(p, "decoder_0", target)
        context = attend(p, values, memory, order < lengths)
        values, _ = _lstm(p, "decoder_1", jnp.concatenate([values, context], axis=-1))
        nats = _cross_entropy(_dense(p, "logits", values), batch["labels"], networks.LABEL_SMOOTHING)
        return nats.sum() / nats.shape[0], carried

    return p, loss, ()


# ------------------------------------------------------------------------------------------------------ step


def _momentum(p, gradients, slots):
    rate, decay = networks.LEARNING_RATE, networks.MOMENTUM
    velocity = jax.tree.map(lambda v, g: decay * v + g, slots["velocity"], gradients)
    return jax.tree.map(lambda w, v: w - rate * v, p, velocity), {"velocity": velocity}


def _adamw(p, gradients, slots):
    given, step = networks.ADAMW, slots["step"] + 1
    b1, b2 = given["beta_1"], given["beta_2"]
    m = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, slots["m"], gradients)
    v = jax.tree.map(lambda v, g: b2 * v + (1 - b2) * g * g, slots["v"], gradients)
    rate = networks.LEARNING_RATE

    def updated(w, m, v):
        direction = m / (1 - b1**step) / (jnp.sqrt(v / (1 - b2**step)) + given["epsilon"])
        return w - rate * (direction + given["weight_decay"] * w)

    return jax.tree.map(updated, p, m, v), {"m": m, "v": v, "step": step}


def _slots(optimizer, p):
    def zeros():
        return jax.tree.map(jnp.zeros_like, p)

    return {"velocity": zeros()} if optimizer == "momentum" else {"m": zeros(), "v": zeros(), "step": jnp.float32(0)}


_BUILDERS = {"mnist_lstm": _mnist_lstm, "resnet50": _resnet50, "bert": _bert, "gnmt": _gnmt}


class Step:
    """`run(steps)` gives the mean loss; `parameters` is their number."""

    def __init__(self, network):
        if network.family == "lstm_language_model":
            p, loss_of, carried = _language_model(network.sizes, network.batch_size)
        else:
            p, loss_of, carried = _BUILDERS[network.family](network.sizes)
        p = dict(p)
        self.parameters = sum(value.size for value in p.values())
        update = {"momentum": _momentum, "adamw": _adamw}[network.optimizer]

        def loss_in_dtype(p, batch, carried):
            # Weights stay float32; products are of the network's dtype.
            return loss_of(jax.tree.map(lambda w: w.astype(network.dtype), p), batch, carried)

        @functools.partial(jax.jit, donate_argnums=(0, 1, 2))
        def step(p, slots, carried, batch):
            (loss, carried), gradients = jax.value_and_grad(loss_in_dtype, has_aux=True)(p, batch, carried)
            p, slots = update(p, gradients, slots)
            return p, slots, carried, loss

        self._step, self._state = step, (p, _slots(network.optimizer, p), carried)
        self._batch = jax.device_put(networks.batch(network))

    def run(self, steps):
        losses = []
        for _ in range(steps):
            *self._state, loss = self._step(*self._state, self._batch)
            losses.append(loss)
        return sum(map(float, losses)) / steps


VERSION = jax.__version__
