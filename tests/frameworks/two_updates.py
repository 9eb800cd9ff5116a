"""Two updates of a framework on given weights and images, to be compared with Keras's.

Reads a line of JSON for each: what is to be trained and how, and the file of its arrays, which has
the weights by their paths, and `images`, `labels`, `classes` and `scale` besides. Writes the
weights after the first update, and prints the loss before and after it as JSON.
"""

from __future__ import annotations

import functools
import json
import sys
from dataclasses import replace

import numpy as np

from batchscope import frameworks
from batchscope.datasets import Examples
from batchscope.frameworks import layers

start = functools.cache(frameworks.start)


def two_updates(framework, model, optimizer, learning_rate, epsilon, given, output) -> dict:
    frameworks.ADAM["epsilon"] = epsilon
    with np.load(given, allow_pickle=False) as archive:
        arrays = dict(archive)
    images, labels = arrays.pop("images"), arrays.pop("labels")
    classes, scale = int(arrays.pop("classes")), float(arrays.pop("scale"))
    network = layers.build(model, images.shape[1:], classes)
    network = replace(network, layers=tuple(replace(each, rate=0.0) for each in network.layers))
    module, examples = start(framework, 1, "cpu"), Examples(images, labels, scale)
    training = module.Training(network, arrays, optimizer, learning_rate, examples, "cpu")
    before = training.run([0], len(labels))
    np.savez(output, **training.weights())
    return {"before": before, "after": training.run([0], len(labels))}


for words in sys.stdin:
    print(json.dumps(two_updates(**json.loads(words))), flush=True)
