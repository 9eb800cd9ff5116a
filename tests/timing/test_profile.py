"""Profiles of real steps: what is recorded, what is read of it, and what a failure leaves."""

import itertools
import json
import time

import numpy as np
import pytest

import measured_run
from batchscope import private_interfaces
from batchscope.catalogue import run_factors, sweep_names
from batchscope.datasets import Examples, looks
from batchscope.timing import fates, loops, profile
from batchscope.timing.instruments import trace
from batchscope.timing.instruments.sampler import Sampler
from batchscope.training import models
from costs import first
from handmade_trace import check_shares


def timed(run):
    """Makes steps return the seconds that they took."""

    def run_steps(count):
        begun = time.perf_counter()
        run(count)
        return time.perf_counter() - begun

    return run_steps


STEPS = 12


def recorded(run_steps, folder, count, **how):
    """The rates of steps, and the sampler of their phases."""
    with Sampler(None) as sampler:
        return profile.record(run_steps, folder, count, sampler, **how), sampler


FACTORS = {
    name: each.default for name, each in run_factors.FACTORS.items() if each.default is not None
}
FACTORS |= {"optimizer": "sgd", "device": "cpu"}


@pytest.fixture(scope="module")
def arrays():
    generator = np.random.default_rng(0)
    images = generator.integers(0, 256, (64, 16, 16, 1), dtype=np.uint8)
    return Examples(images, generator.integers(0, 10, 64), 1 / 255)


@pytest.fixture(scope="module")
def graph(arrays, tmp_path_factory):
    """Rates and summary of the loop in the graph, batch 1."""
    model = models.build("small_cnn", looks.Look((16, 16, 1), 10), 0)
    return profiled(loops.GraphRunner(FACTORS, model, arrays), tmp_path_factory, 5 * STEPS)


@pytest.fixture(scope="module")
def eager(arrays, tmp_path_factory):
    """The same of a step in Python."""
    model = models.build("small_cnn", looks.Look((16, 16, 1), 10), 0)
    runner = loops.StepRunner("eager", model, loops.make_optimizer(FACTORS), arrays)
    return profiled(runner, tmp_path_factory, STEPS, per_step=True)


def profiled(runner, factory, count, **how):
    folder = factory.mktemp("profile")
    rates, _ = recorded(runner.at(1), folder, count, **how)
    return folder, rates, profile.read(folder)


@pytest.mark.parametrize("kind", first(["graph", "eager"]))
def test_a_real_profile(kind, request, monkeypatch):
    folder, rates, _ = request.getfixturevalue(kind)
    monkeypatch.setattr(trace, "TOP", 100)  # which ops take longest is the machine's affair
    found = profile.read(folder)
    check_shares(found)
    assert found["compute_share"] > 0.01 and found["compute_thread_seconds"] > 0
    assert (kind == "eager") == (found["input_share"] > 0)
    rate = rates["steps_per_second_profiled"]
    assert found["seconds"] == pytest.approx(rates["steps"] / rate, rel=0.2)
    assert rates["overhead"] == pytest.approx(rates["steps_per_second"] / rate - 1)
    # Two convolutions, forward and backward.
    counts = {op["op"]: op["count"] for op in found["ops"]}
    forward = [count for name, count in counts.items() if name.endswith("Conv2D")]
    backward = [count for name, count in counts.items() if "Conv2DBackpropFilter" in name]
    assert sum(forward) == sum(backward) == 2 * rates["steps"]
    assert not set(counts) & trace.NOT_COMPUTE
    (path,) = folder.rglob("*.xplane.pb")
    lines = trace.lines(private_interfaces.profile(path.read_bytes()))
    steps = [event for line in lines for event in line.events if event.name == "train"]
    assert len(steps) == (rates["steps"] if kind == "eager" else 0)


@pytest.mark.slow
def test_training_that_waits_for_a_slow_pipeline(tmp_path):
    import tensorflow as tf

    def slow(i):
        time.sleep(0.03)
        return tf.cast(i, tf.float32)

    # Work of the pipeline's own: convolutions that are no part of training.
    def load(i):
        value = tf.ensure_shape(tf.py_function(slow, [i], tf.float32), ())
        image = tf.fill((1, 32, 32, 8), value)
        return tf.reduce_mean(tf.nn.conv2d(image, tf.ones((3, 3, 8, 8)), 1, "SAME"))

    data = tf.data.Dataset.range(1000).map(load).batch(2).prefetch(1)
    weight = tf.Variable(0.0)

    @tf.function
    def steps(iterator, count):
        for _ in tf.range(count):
            matrix = tf.fill((32, 32), next(iterator)[0])
            weight.assign_sub(1e-9 * tf.reduce_sum(matrix @ matrix))

    @timed
    def run_steps(count):
        steps(iter(data), tf.constant(count))
        return float(weight)

    recorded(run_steps, tmp_path, 6)
    found = profile.read(tmp_path)
    check_shares(found)
    assert found["input_share"] > 0.5 and found["compute_share"] > 0
    assert found["seconds"] > 6 * 2 * 0.03
    assert not [op for op in found["ops"] if "Conv2D" in op["op"]]


def test_steps_that_fail_leave_no_profile_and_no_running_profiler(tmp_path):
    calls = []

    @timed
    def run_steps(count):
        calls.append(count)
        if len(calls) == 6:  # the profiled run, after its lead-in
            raise ArithmeticError("not finite")
        time.sleep(0.001)

    with pytest.raises(ArithmeticError, match="not finite"):
        recorded(run_steps, tmp_path, 2, lead_in=3)
    assert not list(tmp_path.rglob("*.pb"))
    rates, sampler = recorded(run_steps, tmp_path, 2, lead_in=3)
    assert calls[6:] == [3, 2] * 4
    assert sampler.phases == [(profile.PLAIN, None), (profile.PROFILED, None)]
    assert rates["steps_per_second"] < 2 / 0.001
    assert len(list(tmp_path.rglob("*.xplane.pb"))) == 1


@pytest.mark.parametrize("kind", first([None, MemoryError, fates.NotFinite]))
def test_the_record_of_a_profile(results, tmp_path, monkeypatch, kind):
    record = profile.record

    def failing(*given):
        found = record(*given)
        if kind:
            raise kind("16")
        return found

    monkeypatch.setattr(profile, "record", failing)
    sweep = sweep_names.parse(f"{measured_run.DATASET}+small_cnn+bs=16+opt=sgd+dev=cpu+th=1")
    job = profile.TimingJob(results, sweep, output=tmp_path / "st=3.json")
    timed = profile.measure(job, {"steps": 3})
    status, found = timed.status, timed.details
    json.dumps(found)
    assert found["samples"]["seconds"] and found["foreign_cores"] is not None
    if kind:
        assert status == ("diverged" if kind is fates.NotFinite else "out_of_memory")
        assert not {"utilisation", "steps", "memory_peak_mb"} & set(found)
        return
    assert status == "finished"
    assert found["utilisation"]["process_cores"] > 0
    assert found["memory_peak_mb"] >= found["utilisation"]["memory_peak_mb"] > 50
    phases = [name for name, _ in itertools.groupby(found["samples"]["phase"]) if name]
    assert phases == [profile.PLAIN, profile.PROFILED, profile.PLAIN]
