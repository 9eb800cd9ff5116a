"""Weights of the built-in networks, counted without building them."""

import pytest

from batchscope.catalogue import dataset_definitions, incompatible_factors, weight_counts
from batchscope.study import model_files
from batchscope.training import models

TOKENS = dataset_definitions.TOKENS
OF_TOKENS = [name for name, kinds in incompatible_factors.MODEL_KINDS.items() if TOKENS in kinds]


@pytest.mark.parametrize("model", sorted({*model_files.BUILT_IN_MODELS} - {*OF_TOKENS}))
@pytest.mark.parametrize(("shape", "classes"), [((32, 32, 3), 2), ((37, 41, 1), 10)])
def test_counts_are_those_of_keras(model, shape, classes):
    built = models.build(model, shape, classes, 0)
    stored = sum(value.size for part in models.weights(built) for value in part.values())
    assert weight_counts.stored(model, shape, classes) == stored


@pytest.mark.parametrize("model", OF_TOKENS)
def test_counts_of_networks_for_tokens_are_those_of_keras(model):
    built = models.build(model, (12,), 37, 0, kind=TOKENS)
    stored = sum(value.size for part in models.weights(built) for value in part.values())
    assert weight_counts.stored(model, (12,), 37) == stored


@pytest.mark.parametrize("model", ["campbell_cnn", "benchmark_cnn", "small_cnn", "keskar_f1"])
def test_layers_are_those_of_keras(model):
    # Those that only reshape or activate are no lines of ours.
    kept = ("Conv2D", "MaxPooling2D", "BatchNormalization", "Dropout", "Dense")
    built = models.build(model, (37, 41, 1), 10, 0)
    theirs = [
        each
        for each in models.layers(built)
        if each.layer.endswith(tuple(f"({name})" for name in kept))
    ]
    ours = weight_counts.layers(model, (37, 41, 1), 10)
    assert [each[1:] for each in ours] == [each[1:] for each in theirs]


def test_nothing_is_told_of_a_users_model():
    assert weight_counts.stored("mine-0123abcd", (8, 8, 1), 10) is None
