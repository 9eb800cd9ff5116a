"""The built-in networks, one entry each.

The builder of the same name stands in batchscope.training.networks, and where `frameworks` says so
in each module of batchscope.frameworks too.

Layers are `conv` filters, side of the kernel, stride and padding; `pool`; `drop` a share of a
vector; `norm`, whose moving statistics are stored too; `dense`; `output`, one unit for two classes
where the network has a sigmoid there; of sequences `embedding` of tokens and positions, `scale` and
shift of a layer normalisation, `attention`, and `each`, a dense layer at each position.
"""

from __future__ import annotations

from dataclasses import dataclass

from batchscope.catalogue.dataset_definitions import IMAGES, ROWS, TOKENS

Layer = tuple[str | float, ...]
SAME = "same"


@dataclass(frozen=True)
class Network:
    """A built-in network.

    Attributes:
        layers: Those that have weights, or give another shape than they take.
        kinds: What it takes, of `dataset_definitions.KINDS`.
        frameworks: Whether batchscope.frameworks has it too.
    """

    layers: list[Layer]
    kinds: tuple[str, ...] = (IMAGES,)
    frameworks: bool = False


def _pooled(filters: tuple[int, ...], *between: Layer) -> list[Layer]:
    """Returns blocks of a convolution, what stands between, and a pool."""
    return [
        layer for count in filters for layer in (("conv", count, 3, 1, SAME), *between, ("pool",))
    ]


# Whoever needs another network is told the first that takes the data.
NETWORKS: dict[str, Network] = {
    "mlp": Network([("dense", 128), ("dense", 128), ("output",)], (IMAGES, ROWS)),
    "keskar_f1": Network([*[("dense", 512), ("norm",)] * 5, ("output",)], (IMAGES, ROWS)),
    "keskar_f1_plain": Network([*[("dense", 512)] * 5, ("output",)], (IMAGES, ROWS)),
    "small_cnn": Network(
        [("conv", 8, 3, 2, SAME), ("conv", 16, 3, 2, SAME), ("dense", 64), ("output",)]
    ),
    "campbell_cnn": Network(
        [
            *[("conv", 16, 4), ("pool",), ("conv", 32, 4), ("pool",)],
            *[("drop", 0.25), ("dense", 500), ("drop", 0.5), ("output",)],
        ],
        frameworks=True,
    ),
    "chang_vgg": Network(
        [
            *_pooled((4, 8, 16, 32, 64)),
            *[("dense", 256), ("dense", 256), ("output", "sigmoid")],
        ]
    ),
    "lheureux_cnn": Network(
        [*_pooled((32,)), ("dense", 128), ("output", "sigmoid")], frameworks=True
    ),
    "benchmark_cnn": Network(
        [
            ("conv", 8, 3, 1, SAME),
            *_pooled((8, 16, 32, 64), ("norm",)),
            *[("dense", 128), ("dense", 64), ("output",)],
        ]
    ),
    "tutorial_cnn": Network([("conv", 32, 3), ("pool",), ("output",)]),
    "tiny_transformer": Network(
        [
            ("embedding", 96),
            *[("scale",), ("attention",), ("scale",), ("each", 384), ("each", 96)] * 2,
            *[("scale",), ("each",)],
        ],
        (TOKENS,),
    ),
}
