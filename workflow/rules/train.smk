"""Data and trainings: one job per data set, run, and snapshot that no training kept."""


rule prepare_data:
    """Reads or downloads a data set, splits it and writes its arrays."""
    output:
        record=parts.dataset_record("{dataset}"),
    log:
        parts.log(parts.dataset_record("{dataset}")),
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


rule train:
    """Trains one run; a killed training goes on from its checkpoint."""
    input:
        # Their content is pinned by the digests in the run's name, whatever their age.
        data=ancient(parts.data),
        model=ancient(MODEL),
    output:
        **parts.trained(),
    log:
        parts.log(parts.run_file()),
    conda:
        ENVIRONMENT
    threads: THREADS
    resources:
        mem_mb=lambda wildcards, attempt: parts.enough(2000, attempt),
        runtime=240,
        gpu=GPUS,
    params:
        VERSIONS["train"],
    # SLURM signals every process of a job: a shell around the training would die of it at once,
    # and Snakemake after it, without waiting for the checkpoint.
    shell:
        "exec python workflow/run.py train --run {wildcards.run:q} --model-file {input.model:q}"
        " > {log:q} 2>&1"


rule snapshot:
    """Weights after an epoch: as the training kept them, or trained again to that epoch."""
    input:
        record=parts.run_file(),
        data=ancient(parts.data),
        model=ancient(MODEL),
    output:
        # What the training kept is not to be deleted before this job.
        update(parts.snapshot()),
    log:
        "logs/snapshot/{run}/{epoch}.log",
    conda:
        ENVIRONMENT
    threads: THREADS
    resources:
        mem_mb=parts.growing(2000),
        runtime=240,
        gpu=GPUS,
    params:
        VERSIONS["train"],
    shell:
        "exec python workflow/run.py snapshot --run {wildcards.run:q} --epoch {wildcards.epoch:q}"
        " --model-file {input.model:q} > {log:q} 2>&1"
