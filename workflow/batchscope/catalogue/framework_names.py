"""The frameworks that are timed beside TensorFlow: one entry each."""

from __future__ import annotations

from dataclasses import dataclass

OWN = "tensorflow"  # which this project's own environment has


@dataclass(frozen=True)
class Framework:
    """A framework beside TensorFlow.

    Attributes:
        title: Its name for people.
        python: The only Python that its pins have wheels for, as `3.11`; empty for any that
            this project takes.
        cpu_index: An index that has its wheels without CUDA; empty where its usual ones are so.
        gpu_requirements: What is installed besides where an NVIDIA GPU is present.
    """

    name: str
    title: str
    python: str = ""
    cpu_index: str = ""
    gpu_requirements: tuple[str, ...] = ()


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
