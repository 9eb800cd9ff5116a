"""The frameworks that are timed beside TensorFlow: one entry each."""

from __future__ import annotations

from dataclasses import dataclass

OWN = "tensorflow"  # which this project's own environment has


@dataclass(frozen=True)
class Framework:
    """A framework beside TensorFlow."""

    name: str
    title: str  # its name for people
    python: str = ""  # the only one that its pins have wheels for, as `3.11`; empty for any of ours
    cpu_index: str = ""  # has its wheels without CUDA; empty where its usual ones are so
    gpu_requirements: tuple[str, ...] = ()  # installed besides where an NVIDIA GPU is present


# A new framework is one line here, its pins in envs/ and its training in batchscope.frameworks.
FRAMEWORKS: dict[str, Framework] = {
    framework.name: framework
    for framework in (
        Framework("pytorch", "PyTorch", cpu_index="https://download.pytorch.org/whl/cpu"),
        Framework("mxnet", "MXNet", python="3.11"),
        Framework("jax", "JAX", gpu_requirements=("jax[cuda12]==0.10.2",)),
    )
}


# By the values of the factor `framework`.
TITLES = {OWN: "TensorFlow", **{name: each.title for name, each in FRAMEWORKS.items()}}
