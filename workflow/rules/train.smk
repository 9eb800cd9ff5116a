"""Trainings: one job per run, and per snapshot that no training kept."""


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
    wildcard_constraints:
        run=rf"(?!{EVALUATED_RUN}){RUN}",
    conda:
        ENVIRONMENT
    group: RUNS
    threads: THREADS
    resources:
        mem_mb=TRAINING_MB,
        cpus_per_task=THREADS,
        gpu=GPUS,
    params:
        VERSIONS["train"],
    # SLURM signals every process of a job: a shell around the training would die of it at once,
    # and Snakemake after it, without waiting for the checkpoint.
    shell:
        "exec python workflow/run.py train --run {wildcards.run:q} --model-file {input.model:q}"
        " > {log:q} 2>&1"


use rule train as train_with_trajectory with:
    output:
        **parts.trained(),
        trajectory=parts.run_file(file="trajectory.csv"),
    wildcard_constraints:
        run=EVALUATED_RUN,


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
    group: RUNS
    threads: THREADS
    resources:
        mem_mb=2000,
        cpus_per_task=THREADS,
        gpu=GPUS,
    params:
        VERSIONS["train"],
    shell:
        "exec python workflow/run.py snapshot --run {wildcards.run:q} --epoch {wildcards.epoch:q}"
        " --model-file {input.model:q} > {log:q} 2>&1"
