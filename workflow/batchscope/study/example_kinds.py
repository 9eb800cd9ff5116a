"""Kinds of examples, and the built-in networks that take them."""

from __future__ import annotations

from dataclasses import dataclass

IMAGES, ROWS, TOKENS, SEQUENCES = "images", "rows", "tokens", "sequences"
# Kind -> words. A class is predicted for each position of tokens, and for a sequence as a whole.
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

    kinds: tuple[str, ...] = (IMAGES,)  # of `example_kinds.KINDS`
    min_side: int = 1  # the least height and width of images, in pixels


# Whoever needs another network is told the first that takes the data.
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
