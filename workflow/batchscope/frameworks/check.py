"""Two updates of a framework on given weights and images, to be compared with Keras's.

    python -m batchscope.frameworks.check --framework jax --model campbell_cnn --arrays in.npz \\
        --optimizer sgd --learning-rate 0.1 --output out.npz

reads the weights by their paths, and `images`, `labels`, `classes` and `scale` besides; writes
the weights after the first update, and prints the loss before and after it as JSON.
"""

from __future__ import annotations

import argparse
import json

import numpy as np

from batchscope import frameworks
from batchscope.frameworks import layers


def main(words: list[str] | None = None) -> None:
    """Does what the module says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--framework", required=True, choices=tuple(frameworks.MODULES))
    parser.add_argument("--model", required=True, choices=tuple(layers.NETWORKS))
    parser.add_argument("--arrays", required=True)
    parser.add_argument("--optimizer", required=True, choices=("sgd", "adam"))
    parser.add_argument("--learning-rate", type=float, required=True)
    parser.add_argument("--epsilon", type=float, help="Adam's, in place of Keras's")
    parser.add_argument("--output", required=True)
    arguments = parser.parse_args(words)
    frameworks.ADAM["epsilon"] = arguments.epsilon or frameworks.ADAM["epsilon"]
    module = frameworks.start(arguments.framework, 1, "cpu")
    with np.load(arguments.arrays, allow_pickle=False) as given:
        arrays = dict(given)
    images, labels = arrays.pop("images"), arrays.pop("labels")
    classes, scale = int(arrays.pop("classes")), float(arrays.pop("scale"))
    training = module.Training(
        layers.build(arguments.model, images.shape[1:], classes),
        arrays,
        arguments.optimizer,
        arguments.learning_rate,
        images,
        labels,
        scale,
        dropout=False,
    )
    before = training.run([0], len(labels))
    np.savez(arguments.output, **training.weights())
    print(json.dumps({"before": before, "after": training.run([0], len(labels))}))


if __name__ == "__main__":
    main()
