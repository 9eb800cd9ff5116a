"""Data: from a download or a local file to arrays that every run maps into memory."""


rule prepare_data:
    """Reads or downloads a data set, splits it and writes its arrays."""
    output:
        record="results/data/{dataset}/record.json",
    log:
        "logs/prepare_data/{dataset}.log",
    conda:
        ENVIRONMENT
    resources:
        mem_mb=lambda wildcards, attempt: 3000 * attempt,
        runtime=120,
    params:
        # A function of the data set's name, which carries the definition's digest.
        definition=lambda wildcards: STUDY.definition(wildcards.dataset),
        version=VERSIONS["prepare_data"],
    shell:
        "python workflow/run.py prepare_data --dataset {wildcards.dataset:q}"
        " --definition {params.definition:q} > {log:q} 2>&1"
        " && cat {log:q} >&2"
