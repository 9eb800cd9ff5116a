"""Private interfaces of other libraries: each exists and does what the code relies on."""

import importlib.util
import re
from pathlib import Path

import numpy as np

from batchscope.core import private_interfaces
from batchscope.host import tensorflow_start
from project import ROOT

tensorflow_start.start()

import keras
import tensorflow as tf


def test_all_layers_are_those_inside_of_others_too():
    inner = keras.Sequential([keras.Input((3, 4)), keras.layers.Dropout(0.5)])
    wrapped = keras.layers.TimeDistributed(keras.layers.Dense(2))
    model = keras.Sequential([keras.Input((3, 4)), inner, wrapped])
    found = private_interfaces.all_layers(model)
    assert {inner.layers[0], inner, wrapped, wrapped.layer} <= {*found}
    assert model not in found


def test_kept_logits_are_those_before_the_softmax():
    numbers = tf.constant([[3.0, -1.0, 0.5]])
    kept = private_interfaces.attached_logits(keras.ops.softmax(numbers))
    assert np.array_equal(kept, numbers)
    single = tf.constant([[0.5]])
    assert np.array_equal(
        private_interfaces.attached_logits(keras.activations.sigmoid(single)), single
    )
    assert private_interfaces.attached_logits(numbers) is None


def test_moments_are_those_of_the_weight():
    weights = [keras.Variable(np.zeros(size, "float32")) for size in (2, 3)]
    adam = keras.optimizers.Adam(0.1, beta_1=0.5, beta_2=0.75)
    adam.apply([tf.constant([1.0, 2.0]), tf.constant([3.0, 4.0, 5.0])], weights)
    mean, square = private_interfaces.adam_moments(adam, weights[1].value)
    assert np.array_equal(mean, [1.5, 2.0, 2.5])
    assert np.array_equal(square, [2.25, 4.0, 6.25])


# Attribute of Snakemake's `workflow` that its documentation does not name -> its purpose, and the
# benchmark if it only saves time.
SNAKEMAKE = {
    "config_settings": "the options of `--config` alone; `config` also holds those of the file",
    "configfiles": "the path of the configuration file; `config` holds its content only",
    "dag": "the targets of a call, to check that a call without a failed job made them",
    "global_resources": "the GPUs and cores of the call; `resources` belong to a job",
    "nodes": "whether the call has a number of jobs, as for a cluster, or a number of cores",
    "remote_exec": "whether this process is a job of a cluster, which reads the Snakefile again",
    "local_exec": "whether jobs run on this machine, where they share imported libraries",
    "register_resource": "the resource `gpu` of 1, if the call sets none",
    "scheduler": "to remove its limit of jobs per second (benchmarks/grid.py)",
}


def test_the_rules_use_what_is_listed_of_snakemake():
    rules = [ROOT / "Snakefile", *(ROOT / "workflow" / "rules").glob("*.smk")]
    text = "".join(path.read_text(encoding="utf-8") for path in rules)
    used = {*re.findall(r"\bworkflow\.([a-z_]+)\b(?!/)", text)} - {"basedir"}  # documented
    assert used == {*SNAKEMAKE}
    # An import of Snakemake takes a second.
    module = Path(importlib.util.find_spec("snakemake").origin).with_name("workflow.py")
    names = re.findall(r"(?:self\.|^    def |^    )(\w+)(?= = |\(|:)", module.read_text(), re.M)
    assert used <= {*names}


def test_an_array_on_the_disk_is_read_at_random(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(10_000))
    array = np.lib.format.open_memmap(tmp_path / "a.npy", mode="r")
    for mapped in (array, array[..., None]):
        private_interfaces.advise_random_access(mapped)
        assert mapped[[7_000, 3]].ravel().tolist() == [7_000, 3]
