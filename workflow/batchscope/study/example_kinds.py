"""Kinds of examples, and the kinds that each built-in network takes.

A new network is an item of `NETWORKS` here, and a function in `training.networks`.
"""

from __future__ import annotations

from dataclasses import dataclass

IMAGES, ROWS, TOKENS, SEQUENCES = "images", "rows", "tokens", "sequences"
# Kind -> its name in messages. Tokens have a class for each position, sequences one for all.
KINDS = {
    IMAGES: "images",
    ROWS: "rows of numbers",
    TOKENS: "sequences of tokens",
    SEQUENCES: "sequences of tokens with one class each",
}
TOKEN_KINDS = (TOKENS, SEQUENCES)


@dataclass(frozen=True)
class Network:
    """A built-in network."""

    kinds: tuple[str, ...] = (IMAGES,)  # kinds of examples that it takes
    min_side: int = 1  # smallest height and width of images, in pixels


# Messages suggest the first network in this order that takes the examples of a data set.
NETWORKS: dict[str, Network] = {
    "mlp": Network((IMAGES, ROWS)),
    "keskar_f1": Network((IMAGES, ROWS)),
    "keskar_f1_plain": Network((IMAGES, ROWS)),
    "small_cnn": Network(),
    "campbell_cnn": Network(min_side=13),
    "chang_vgg": Network(min_side=32),
    "lheureux_cnn": Network(min_side=2),
    "benchmark_cnn": Network(min_side=16),
    "tutorial_cnn": Network(min_side=4),
    "tiny_transformer": Network((TOKENS,)),
}
