"""Short trainings, whose numbers choose a grid."""

from __future__ import annotations

import itertools

from batchscope.host import tensorflow_start

tensorflow_start.start(1, "cpu")

import math

import pytest

from batchscope import datasets
from batchscope.catalogue import dataset_definitions
from batchscope.datasets.looks import Look
from batchscope.training import models, probe

FACTORS = {"model": "mlp", "optimizer": "adam", "batch_size": 32}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    results, definition = tmp_path_factory.mktemp("probe"), dataset_definitions.BUILT_IN["diabetes"]
    token = definition.token("diabetes")
    datasets.prepare(token, definition.resolved(), results)
    return datasets.load(results, token)


def losses(data, rate, count, seconds=60.0):
    given = {**FACTORS, "learning_rate": rate}
    return list(itertools.islice(probe.validation_losses(data, given, None, seconds), count))


def test_a_loss_is_given_before_and_after_each_epoch(data):
    found = losses(data, 0.003, 6)
    assert [used for used, _ in found] == [266 * epoch for epoch in range(6)]
    assert found[-1][1] < 0.7 < found[0][1]
    assert found == losses(data, 0.003, 6)


def test_it_ends_where_the_loss_is_not_finite_or_the_time_is_over(data):
    found = losses(data, 1e30, 100)
    assert len(found) < 100 and found[-1][1] == math.inf
    assert len(losses(data, 0.003, 100, seconds=0.0)) == 1


def test_numbers_of_an_example_are_the_outputs_of_its_layers():
    model = models.build("mlp", Look((10,), 2, "rows"), 0)
    assert probe.numbers_of_example(model) == 10 + 10 + 128 + 128 + 2
