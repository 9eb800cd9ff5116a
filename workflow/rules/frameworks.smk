"""Frameworks that are timed beside TensorFlow: an environment for each, made on demand."""


# A cluster's nodes may reach no package index.
localrules:
    install_pytorch,
    install_mxnet,
    install_jax,


rule install_pytorch:
    """Installs PyTorch into an environment of its own."""
    input:
        "envs/pytorch.lock",
    output:
        environments.record("pytorch"),
    log:
        "logs/install_framework/pytorch.log",
    conda:
        "../../envs/batchscope.yaml"
    shell:
        "python workflow/run.py install_framework --framework pytorch"
        " --output {output:q} > {log:q} 2>&1"


rule install_mxnet:
    """Installs MXNet into an environment of its own."""
    input:
        "envs/mxnet.lock",
    output:
        environments.record("mxnet"),
    log:
        "logs/install_framework/mxnet.log",
    conda:
        "../../envs/batchscope.yaml"
    shell:
        "python workflow/run.py install_framework --framework mxnet"
        " --output {output:q} > {log:q} 2>&1"


rule install_jax:
    """Installs JAX into an environment of its own."""
    input:
        "envs/jax.lock",
    output:
        environments.record("jax"),
    log:
        "logs/install_framework/jax.log",
    conda:
        "../../envs/batchscope.yaml"
    shell:
        "python workflow/run.py install_framework --framework jax"
        " --output {output:q} > {log:q} 2>&1"
