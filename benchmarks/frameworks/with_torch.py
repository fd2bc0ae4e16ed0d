"""The networks as PyTorch's users write them: torch.nn, its fused optimizers, eager or by torch.compile."""

import networks
import torch
import torch.nn.functional as F
from torch import nn

VERSION = torch.__version__


class _OneBiasLSTM(nn.LSTM):
    """torch.nn.LSTM with one bias a layer, as Keras and JAX have: the second stays zero and is not trained."""

    def __init__(self, inputs, units, **options):
        super().__init__(inputs, units, batch_first=True, **options)
        for name, weight in self.named_parameters():
            if name.startswith("bias_hh"):
                nn.init.zeros_(weight)
                weight.requires_grad = False


class _MnistLSTM(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        hidden = sizes["hidden"]
        self.projection = nn.Linear(sizes["columns"], hidden)
        self.lstm = _OneBiasLSTM(hidden, hidden)
        self.logits = nn.Linear(hidden, sizes["classes"])

    def forward(self, batch):
        outputs, _ = self.lstm(self.projection(batch["images"].float() / 255))
        return F.cross_entropy(self.logits(outputs[:, -1]), batch["labels"])


class _LanguageModel(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.embedding = nn.Embedding(sizes["vocabulary"], sizes["hidden"])
        self.lstm = _OneBiasLSTM(sizes["hidden"], sizes["hidden"], num_layers=sizes["layers"])
        self.logits = nn.Linear(sizes["hidden"], sizes["vocabulary"])
        self.carried = None

    def forward(self, batch):
        values, carried = self.lstm(self.embedding(batch["tokens"]), self.carried)
        self.carried = tuple(state.detach() for state in carried)
        return F.cross_entropy(self.logits(values).flatten(0, 1), batch["labels"].flatten())


def _convolution(inputs, filters, size, stride=1):
    convolution = nn.Conv2d(inputs, filters, size, stride, size // 2, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(filters, eps=1e-5))


class _Block(nn.Module):
    def __init__(self, inputs, width, stride, projects):
        super().__init__()
        self.reduce = _convolution(inputs, width, 1)
        self.spatial = _convolution(width, width, 3, stride)
        self.expand = _convolution(width, 4 * width, 1)
        self.shortcut = _convolution(inputs, 4 * width, 1, stride) if projects else nn.Identity()

    def forward(self, x):
        inner = F.relu(self.spatial(F.relu(self.reduce(x), inplace=True)), inplace=True)
        return F.relu(self.expand(inner) + self.shortcut(x), inplace=True)


class _ResNet50(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.stem = _convolution(3, 64, 7, 2)
        # Padded after the picture only, as TensorFlow's 'same'.
        self.pool = nn.MaxPool2d(3, 2, ceil_mode=True)
        blocks, inputs = [], 64
        for stage, (count, width) in enumerate(networks.STAGES):
            for block in range(count):
                blocks.append(_Block(inputs, width, 2 if stage and not block else 1, projects=not block))
                inputs = 4 * width
        self.blocks = nn.Sequential(*blocks)
        self.logits = nn.Linear(inputs, sizes["classes"])
        self.register_buffer("means", torch.tensor(networks.CHANNEL_MEANS).view(3, 1, 1))
        self.register_buffer("deviations", torch.tensor(networks.CHANNEL_DEVIATIONS).view(3, 1, 1))

    def forward(self, batch):
        # [n, height, width, 3] in memory, seen as [n, 3, height, width]: PyTorch's channels_last.
        x = (batch["images"].permute(0, 3, 1, 2).float() - self.means) / self.deviations
        x = self.pool(F.relu(self.stem(x), inplace=True))
        return F.cross_entropy(self.logits(self.blocks(x).mean((2, 3))).float(), batch["labels"])


class _Layer(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (nn.Linear(hidden, hidden) for _ in range(4))
        self.inner, self.outer = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)
        self.attention_norm, self.dense_norm = (nn.LayerNorm(hidden, eps=1e-12) for _ in range(2))

    def forward(self, x, mask):
        query, key, value = (
            each(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for each in (self.query, self.key, self.value)
        )
        attended = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        x = self.attention_norm(x + self.output(attended.transpose(1, 2).flatten(2)))
        return self.dense_norm(x + self.outer(F.gelu(self.inner(x), approximate="tanh")))


class _Bert(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        hidden = sizes["hidden"]
        self.words = nn.Embedding(sizes["vocabulary"], hidden)
        self.positions = nn.Embedding(sizes["positions"], hidden)
        self.types = nn.Embedding(2, hidden)
        self.norm, self.masked_norm = (nn.LayerNorm(hidden, eps=1e-12) for _ in range(2))
        self.layers = nn.ModuleList(_Layer(hidden, sizes["heads"]) for _ in range(sizes["layers"]))
        self.pooler, self.masked = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden)
        self.follows = nn.Linear(hidden, 2)
        self.masked_bias = nn.Parameter(torch.zeros(sizes["vocabulary"]))

    def forward(self, batch):
        words = batch["words"]
        x = self.words(words) + self.positions.weight[: words.shape[1]] + self.types(batch["types"])
        x, mask = self.norm(x), batch["mask"].bool()[:, None, None]
        for layer in self.layers:
            x = layer(x, mask)
        at = batch["masked_positions"].long()[..., None].expand(-1, -1, x.shape[-1])
        picked = self.masked_norm(F.gelu(self.masked(x.gather(1, at)), approximate="tanh"))
        logits = F.linear(picked, self.words.weight, self.masked_bias)
        loss = F.cross_entropy(logits.flatten(0, 1).float(), batch["masked_labels"].flatten())
        follows = self.follows(torch.tanh(self.pooler(x[:, 0])))
        return loss + F.cross_entropy(follows.float(), batch["next_labels"])


class _Gnmt(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        hidden = sizes["hidden"]
        self.embedding = nn.Embedding(sizes["vocabulary"], hidden)
        self.encoder = _OneBiasLSTM(hidden, hidden, bidirectional=True)
        self.first, self.second = _OneBiasLSTM(hidden, hidden), _OneBiasLSTM(3 * hidden, hidden)
        self.query, self.key = nn.Linear(hidden, hidden, bias=False), nn.Linear(2 * hidden, hidden, bias=False)
        self.v, self.bias = nn.Parameter(torch.zeros(hidden)), nn.Parameter(torch.zeros(hidden))
        self.gamma = nn.Parameter(torch.zeros(()))
        self.logits = nn.Linear(hidden, sizes["vocabulary"])

    def forward(self, batch):
        source, lengths = batch["source"], batch["lengths"]
        # All sentences are of one length: packing them would cost time and change nothing.
        memory, _ = self.encoder(self.embedding(source))
        values, _ = self.first(self.embedding(batch["target"]))
        pairs = torch.tanh(self.query(values)[:, :, None] + (self.key(memory) + self.bias)[:, None])
        scores = pairs @ (self.gamma * self.v / self.v.norm())
        mask = torch.arange(source.shape[1]) < lengths[:, None]
        weights = scores.masked_fill(~mask[:, None], torch.finfo(scores.dtype).min).softmax(-1)
        values, _ = self.second(torch.cat([values, weights @ memory], dim=-1))
        nats = F.cross_entropy(
            self.logits(values).flatten(0, 1),
            batch["labels"].flatten(),
            label_smoothing=networks.LABEL_SMOOTHING,
            reduction="sum",
        )
        return nats / len(source)


_MODULES = {
    "mnist_lstm": _MnistLSTM,
    "lstm_language_model": _LanguageModel,
    "resnet50": _ResNet50,
    "bert": _Bert,
    "gnmt": _Gnmt,
}


def _fill(module):
    """Puts `networks.pattern` into all weights: PyTorch's are [outputs, inputs, ...]."""
    embeddings = {id(each.weight) for each in module.modules() if isinstance(each, nn.Embedding)}
    for weight in module.parameters():
        if not weight.requires_grad:
            continue
        order = [0, 1] if id(weight) in embeddings else [*range(2, weight.dim()), 1, 0]
        if weight.dim() < 2:
            value = networks.pattern(tuple(weight.shape), vector=True)
        else:
            shape = [weight.shape[axis] for axis in order]
            inverse = [order.index(axis) for axis in range(weight.dim())]
            value = networks.pattern(shape, vector=False).transpose(inverse)
        weight.data.copy_(torch.tensor(value.copy()))


class Step:
    """`run(steps)` gives the mean loss; `parameters` is their number."""

    def __init__(self, network, cores, compiled=False):
        torch.set_num_threads(cores)
        self._module = module = _MODULES[network.family](network.sizes)
        _fill(module)
        if network.family == "resnet50":
            module.to(memory_format=torch.channels_last)
        trained = [weight for weight in module.parameters() if weight.requires_grad]
        self.parameters = sum(weight.numel() for weight in trained)
        if network.optimizer == "momentum":
            self._optimizer = torch.optim.SGD(trained, networks.LEARNING_RATE, networks.MOMENTUM, fused=True)
        else:
            given = networks.ADAMW
            self._optimizer = torch.optim.AdamW(
                trained,
                networks.LEARNING_RATE,
                (given["beta_1"], given["beta_2"]),
                given["epsilon"],
                given["weight_decay"],
                fused=True,
            )
        batch = {name: torch.tensor(value) for name, value in networks.batch(network).items()}
        self._batch = {name: value.long() if "label" in name else value for name, value in batch.items()}
        self._mixed = network.dtype == "bfloat16"
        self._loss = torch.compile(module) if compiled else module

    def run(self, steps):
        total = 0.0
        for _ in range(steps):
            self._optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cpu", torch.bfloat16, enabled=self._mixed):
                loss = self._loss(self._batch)
            loss.backward()
            self._optimizer.step()
            total += loss.detach()
        return float(total) / steps
