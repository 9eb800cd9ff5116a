"""Data: one job per data set, where Snakemake runs: a cluster's nodes may reach no data's address."""


localrules:
    prepare_data,


rule prepare_data:
    """Reads or downloads a data set, splits it and writes its arrays."""
    output:
        record=parts.dataset_record("{dataset}"),
        arrays=parts.arrays("{dataset}"),
    log:
        parts.log(parts.dataset_record("{dataset}")),
    conda:
        ENVIRONMENT
    params:
        # A function of the data set's name, which carries the definition's digest.
        definition=lambda wildcards: STUDY.definition(wildcards.dataset),
        version=VERSIONS["prepare_data"],
    shell:
        "python workflow/run.py prepare_data --dataset {wildcards.dataset:q}"
        " --definition {params.definition:q} > {log:q} 2>&1"
        " && cat {log:q} >&2"
