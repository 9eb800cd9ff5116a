"""Hand-made evidence for tests of the advice: six seeds that differ little."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from batchscope.analysis.advice import Evidence, Limits, Outcome, ToTarget

SIZES = [16, 32, 64, 128, 256]
FLAT = [1.0, 1.0, 1.0, 1.0, 1.0]
ACCURATE = [0.95] * 5


def noise(sizes, seeds, scale, seed=0):
    """Noise whose mean over the seeds is 0 at every size, so that means are those given."""
    draws = np.random.default_rng(seed).normal(size=(sizes, seeds)) * scale
    return draws - draws.mean(axis=1, keepdims=True)


def evidence(seconds=FLAT, accuracy=ACCURATE, seeds=6, spread=0.01, **more):
    """Six seeds that differ little: every size far from a margin is resolved."""
    seconds, accuracy = np.asarray(seconds), np.asarray(accuracy)
    count = len(seconds)
    values = accuracy[:, None] + noise(count, seeds, spread / 10, 1)
    taken = seconds[:, None] * np.exp(noise(count, seeds, spread))
    found = Evidence(
        batch_sizes=SIZES[:count],
        seeds=list(range(seeds)),
        to_target=ToTarget("a validation loss of 0.2", taken),
        outcomes=(Outcome("test_accuracy", 0.01, values),),
        scope="small_cnn on digits",
    )
    return changed(found, **more)


def changed(given, **more):
    """The evidence with other values: its own, of its target or of its limits."""
    for part, kind in (("to_target", ToTarget), ("limits", Limits)):
        own = {name: more.pop(name) for name in kind._fields if name in more}
        more[part] = getattr(given, part)._replace(**own)
    return replace(given, **more)
