"""Residual networks, with the activation after the sum (v1.5) or before the convolutions (v2).

Own code: Keras' applications have v1 and v2 of three depths each, with biases in the convolutions, momentum 0.99, no
other widths, stems or cross-replica normalisation, and no zero gamma; the published large-batch results need these.
"""

from __future__ import annotations

from typing import Any

import keras

from tfbigbatch.errors import InputError
from tfbigbatch.models import image_layers
from tfbigbatch.models.checks import check_sizes, one_of
from tfbigbatch.models.recompute import recomputed

# Filter and stride of the first convolution, and whether a max pooling of stride 2 follows.
STEMS = {"7x7_pool": (7, 2, True), "3x3": (3, 1, False), "3x3_stride2": (3, 2, False)}
VERSIONS = {1: "activation after the sum", 2: "activation before the convolutions"}


def resnet(
    *,
    image_size: int,
    classes: int,
    blocks: tuple[int, ...],
    width: int = 64,
    bottleneck: bool = False,
    version: int = 1,
    stem: str = "7x7_pool",
    cross_replica_norm: bool = False,
    recompute: bool = False,
    name: str = "resnet",
) -> keras.Model:
    """A residual network with any number of blocks; for ImageNet the names 'resnet50' and others of `image_models`.

    For 1,000 classes ResNet-50 has 25,557,032 parameters in version 1, and 25,549,352 in version 2.

    Version 1 is v1.5: He et al. 2015 (arXiv:1512.03385) with the stride of a bottleneck in its 3x3
    convolution. Version 2 is the full pre-activation of He et al. 2016 (arXiv:1603.05027); the shortcuts
    of its first block and of blocks with a projection are activated too, as in the paper's appendix.

    The layers are those of MLPerf's TensorFlow 1 reference: no biases in convolutions; strided ones padded
    equally on both sides, which TensorFlow's 'same' does for odd sizes only; max pooling 'same'; batch
    normalisation with momentum 0.9 and epsilon 1e-5; convolutions initialised truncated normal with variance
    1 / fan_in (its TensorFlow 2 reference: 2 / fan_in), the logits normal with standard deviation 0.01. But in
    version 1 the last gamma of a block is initialised with 0 (Goyal et al. 2017, arXiv:1706.02677), and blocks of
    two 3x3 convolutions have a projection in the first stage only where the width requires it, as in the paper.

    Args:
      image_size: pixels of a side.
      classes: number of classes.
      blocks: number of blocks in each stage; each stage after the first halves the image and doubles the width.
      width: filters in the first stage.
      bottleneck: blocks of 1x1, 3x3 and 1x1 convolutions, the last four times as wide; otherwise two of 3x3.
      version: 1 or 2.
      stem: the layers before the blocks. '7x7_pool', for ImageNet, divides the image size by 4; '3x3', for
        small images, keeps it; '3x3_stride2' halves it.
      cross_replica_norm: batch normalisation over the batch of all replicas.
      recompute: whether the backward pass computes the activations of each block again; see `recompute.Block`.
      name: of the model.

    Returns:
      keras.Model from uint8 [batch, image_size, image_size, 3] to float32 logits [batch, classes].

    Raises:
      ValueError: a size is out of range.
    """
    if not blocks or not isinstance(blocks, (tuple, list)):
        raise InputError(f"blocks={blocks!r}: expected the number of blocks in each stage, as (2, 2, 2, 2).")
    check_sizes(image_size=image_size, classes=classes, width=width)
    check_sizes(**{f"blocks[{stage}]": count for stage, count in enumerate(blocks)})
    one_of("version", version, VERSIONS)
    size, stride, is_pooled = one_of("stem", stem, STEMS)
    network = _Layers(version, bottleneck, cross_replica_norm)
    pixels, x = image_layers.normalized_input(image_size)
    x = network.convolution(x, width, size, stride, "stem_conv")
    # Version 2 leaves the activation to the first block.
    if version == 1:
        x = network.activated(x, "stem_bn", "stem_relu")
    if is_pooled:
        x = keras.layers.MaxPooling2D(3, 2, padding="same", name="stem_pool")(x)
    ends = [x]
    for stage, count in enumerate(blocks, start=1):
        for block in range(1, count + 1):
            stride = 2 if stage > 1 and block == 1 else 1
            x = network.block(x, width * 2 ** (stage - 1), stride, f"stage{stage}_block{block}")
            ends.append(x)
    if version == 2:
        x = network.activated(x, "last_bn", "last_relu")
    # float32 under mixed precision too: a mean of many pixels.
    x = keras.layers.GlobalAveragePooling2D(dtype="float32", name="average_pool")(x)
    logits = image_layers.logits(x, classes, keras.initializers.RandomNormal(stddev=0.01))
    model = keras.Model(pixels, logits, name=name)
    return recomputed(model, ends) if recompute else model


def cifar_resnet(*, depth: int, width: int = 16, stem: str = "3x3", **fields: Any) -> keras.Model:
    """The networks of He et al. 2015 for CIFAR-10: 6n + 2 layers, n blocks in each of three stages.

    A projection replaces the paper's zero-padded shortcut: ResNet-20 has 272,474 parameters for 10 classes,
    not 269,722.

    Args:
      depth: 20, 32, 44, 56, 110 in the paper.
      width: filters in the first stage; twice and four times as many in the others.
      stem: as in `resnet`.
      **fields: the other arguments of `resnet`.

    Raises:
      ValueError: the depth is not 6n + 2, and as `resnet`.
    """
    check_sizes(depth=depth)
    count, rest = divmod(depth - 2, 6)
    if rest or count < 1:
        below = 6 * max(count, 1) + 2
        raise InputError(f"depth={depth}: expected 6n + 2 layers; the nearest are {below} and {below + 6}.")
    return resnet(blocks=(count,) * 3, width=width, stem=stem, **fields)


class _Layers:
    """Named layers and blocks of one network."""

    def __init__(self, version: int, bottleneck: bool, cross_replica_norm: bool) -> None:
        self.version = version
        self._bottleneck = bottleneck
        self._cross_replica_norm = cross_replica_norm

    def convolution(self, x: keras.KerasTensor, filters: int, size: int, stride: int, name: str) -> keras.KerasTensor:
        if stride > 1 and size == 1:
            # The same numbers as with the stride in the convolution, as fast, and safe: TensorFlow 2.20's (oneDNN's)
            # gradient of a strided 1x1 filter writes past its memory on CPUs where eight channels or fewer come in.
            x, stride = keras.layers.AveragePooling2D(1, stride, name=f"{name}_stride")(x), 1
        padded = stride > 1
        if padded:
            x = keras.layers.ZeroPadding2D(size // 2, name=f"{name}_pad")(x)
        return keras.layers.Conv2D(
            filters,
            size,
            stride,
            padding="valid" if padded else "same",
            use_bias=False,
            kernel_initializer="variance_scaling",
            name=name,
        )(x)

    def norm(self, x: keras.KerasTensor, name: str, zero_gamma: bool = False) -> keras.KerasTensor:
        return image_layers.FusedBatchNormalization(
            momentum=0.9,
            epsilon=1e-5,
            gamma_initializer="zeros" if zero_gamma else "ones",
            synchronized=self._cross_replica_norm,
            name=name,
        )(x)

    def activated(self, x: keras.KerasTensor, norm_name: str, relu_name: str) -> keras.KerasTensor:
        return keras.layers.ReLU(name=relu_name)(self.norm(x, norm_name))

    def block(self, x: keras.KerasTensor, filters: int, stride: int, name: str) -> keras.KerasTensor:
        if self._bottleneck:
            convolutions = [(filters, 1, 1), (filters, 3, stride), (4 * filters, 1, 1)]
        else:
            convolutions = [(filters, 3, stride), (filters, 3, 1)]
        build = self._block_v1 if self.version == 1 else self._block_v2
        return build(x, convolutions, stride, name)

    def _block_v1(
        self, x: keras.KerasTensor, convolutions: list[tuple[int, int, int]], stride: int, name: str
    ) -> keras.KerasTensor:
        shortcut, wide = x, convolutions[-1][0]
        if stride > 1 or x.shape[-1] != wide:
            shortcut = self.convolution(x, wide, 1, stride, f"{name}_shortcut_conv")
            shortcut = self.norm(shortcut, f"{name}_shortcut_bn")
        for number, convolution in enumerate(convolutions, start=1):
            x = self.convolution(x, *convolution, f"{name}_conv{number}")
            if number < len(convolutions):
                x = self.activated(x, f"{name}_bn{number}", f"{name}_relu{number}")
        # The block starts as the identity, which is more stable at a large learning rate.
        x = self.norm(x, f"{name}_bn{len(convolutions)}", zero_gamma=True)
        x = keras.layers.Add(name=f"{name}_add")([x, shortcut])
        return keras.layers.ReLU(name=f"{name}_relu")(x)

    def _block_v2(
        self, x: keras.KerasTensor, convolutions: list[tuple[int, int, int]], stride: int, name: str
    ) -> keras.KerasTensor:
        shortcut, wide = x, convolutions[-1][0]
        projects = stride > 1 or x.shape[-1] != wide
        # No zero gamma here: each is before a ReLU, which would pass no gradient back to it.
        for number, convolution in enumerate(convolutions, start=1):
            x = self.activated(x, f"{name}_bn{number}", f"{name}_relu{number}")
            if number == 1 and (projects or name == "stage1_block1"):
                shortcut = x
            x = self.convolution(x, *convolution, f"{name}_conv{number}")
        if projects:
            shortcut = self.convolution(shortcut, wide, 1, stride, f"{name}_shortcut_conv")
        return keras.layers.Add(name=f"{name}_add")([x, shortcut])
