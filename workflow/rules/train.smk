"""Training: one job per run; a killed one goes on from its checkpoint. Weights after an epoch."""


rule train:
    """Trains one run; a killed training goes on from its checkpoint."""
    input:
        # Their content is pinned by the digests in the run's name, whatever their age.
        data=ancient(lambda wildcards: parts.dataset_record(wildcards.run)),
        model=ancient(RUN_MODEL),
    output:
        record="results/runs/{run}/record.json",
        history="results/runs/{run}/history.csv",
        final="results/runs/{run}/final.npz",
        best="results/runs/{run}/best.npz",
        initial="results/runs/{run}/initial.npz",
        updates="results/runs/{run}/updates.npz",
    log:
        "logs/train/{run}.log",
    conda:
        ENVIRONMENT
    threads: RUN_THREADS
    resources:
        # The last attempt has no more than the one before: it records that this was not enough.
        mem_mb=lambda wildcards, attempt: 2000 * 2 ** min(attempt - 1, 2),
        runtime=240,
        gpu=RUN_GPUS,
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
        record="results/runs/{run}/record.json",
        data=ancient(lambda wildcards: parts.dataset_record(wildcards.run)),
        model=ancient(RUN_MODEL),
    output:
        # What the training kept is not to be deleted before this job.
        update("results/runs/{run}/epochs/{epoch}.npz"),
    log:
        "logs/snapshot/{run}/{epoch}.log",
    conda:
        ENVIRONMENT
    threads: RUN_THREADS
    resources:
        mem_mb=lambda wildcards, attempt: 2000 * 2 ** (attempt - 1),
        runtime=240,
        gpu=RUN_GPUS,
    params:
        VERSIONS["train"],
    shell:
        "exec python workflow/run.py snapshot --run {wildcards.run:q} --epoch {wildcards.epoch:q}"
        " --model-file {input.model:q} > {log:q} 2>&1"
