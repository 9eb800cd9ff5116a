"""Weights of the built-in networks, counted without building them."""

import functools

import pytest

from batchscope.catalogue import weight_counts
from batchscope.catalogue.dataset_definitions import TOKENS
from batchscope.catalogue.networks import NETWORKS
from batchscope.host import tensorflow_start

tensorflow_start.start()
from batchscope.datasets.looks import Look
from batchscope.training import models
from costs import first

OF_TOKENS = [name for name, network in NETWORKS.items() if TOKENS in network.kinds]


@functools.cache
def built(model, shape, classes, **options):
    return models.build(model, Look(shape, classes, **options), 0)


def stored(model):
    return sum(value.size for part in models.weights(model) for value in part.values())


@pytest.mark.parametrize("model", first(sorted({*NETWORKS} - {*OF_TOKENS})))
@pytest.mark.parametrize(("shape", "classes"), [((32, 32, 3), 2), ((37, 41, 1), 10)])
def test_counts_are_those_of_keras(model, shape, classes):
    assert weight_counts.stored(model, shape, classes) == stored(built(model, shape, classes))


@pytest.mark.parametrize("model", OF_TOKENS)
def test_counts_of_networks_for_tokens_are_those_of_keras(model):
    counted = stored(built(model, (12,), 37, kind=TOKENS))
    assert weight_counts.stored(model, (12,), 37) == counted


@pytest.mark.parametrize(
    "model", first(["benchmark_cnn", "campbell_cnn", "small_cnn", "keskar_f1"])
)
def test_layers_are_those_of_keras(model):
    # Those that only reshape or activate are no lines of ours.
    kept = ("Conv2D", "MaxPooling2D", "BatchNormalization", "Dropout", "Dense")
    theirs = [
        each
        for each in models.layers(built(model, (37, 41, 1), 10))
        if each.layer.endswith(tuple(f"({name})" for name in kept))
    ]
    ours = weight_counts.layers(model, (37, 41, 1), 10)
    assert [each[1:] for each in ours] == [each[1:] for each in theirs]


def test_nothing_is_stored_of_a_users_model():
    assert weight_counts.stored("mine-0123abcd", (8, 8, 1), 10) is None
