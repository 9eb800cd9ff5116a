"""Data: one job per data set, where Snakemake runs: nodes of a cluster often have no internet."""


localrules:
    prepare_data,


rule prepare_data:
    """Read or download a data set, split it and write its arrays."""
    output:
        inputs.dataset_files("{dataset}"),
    log:
        "logs/prepare_data/{dataset}.log",
    conda:
        ENVIRONMENT
    params:
        # A function of the data set's name, which has the definition's digest.
        definition=lambda wildcards: STUDY.definition(wildcards.dataset),
        version=VERSIONS["prepare_data"],
    shell:
        "python workflow/run.py prepare_data --dataset {wildcards.dataset:q}"
        " --definition {params.definition:q} > {log:q} 2>&1"
        " && cat {log:q} >&2"
