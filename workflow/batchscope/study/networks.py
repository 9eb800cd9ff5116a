"""Built-in networks and the examples that they take.

The builder of the same name is in batchscope.training.networks.
"""

from __future__ import annotations

from dataclasses import dataclass

from batchscope.study.example_kinds import IMAGES, ROWS, TOKENS


@dataclass(frozen=True)
class Network:
    """A built-in network."""

    kinds: tuple[str, ...] = (IMAGES,)  # of `example_kinds.KINDS`
    least_side: int = 1  # the least height and width of images, in pixels


# Whoever needs another network is told the first that takes the data.
NETWORKS: dict[str, Network] = {
    "mlp": Network((IMAGES, ROWS)),
    "keskar_f1": Network((IMAGES, ROWS)),
    "keskar_f1_plain": Network((IMAGES, ROWS)),
    "small_cnn": Network(),
    "campbell_cnn": Network(least_side=13),
    "chang_vgg": Network(least_side=32),
    "lheureux_cnn": Network(least_side=2),
    "benchmark_cnn": Network(least_side=16),
    "tutorial_cnn": Network(least_side=4),
    "tiny_transformer": Network((TOKENS,)),
}
