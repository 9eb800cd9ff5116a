"""Trainings: one job per run, and one per snapshot that no training kept."""


rule train:
    """Train one run; a killed training goes on from its checkpoint."""
    input:
        # The digests in the run's name determine their content, whatever their age.
        data=ancient(DATA),
        model=ancient(MODEL),
    output:
        record="results/runs/{run}/record.json",  # written last
        history="results/runs/{run}/history.csv",
        final="results/runs/{run}/final.npz",
        best="results/runs/{run}/best.npz",
        initial="results/runs/{run}/initial.npz",
        updates="results/runs/{run}/updates.npz",
    log:
        "logs/train/{run}.log",
    wildcard_constraints:
        run=rf"(?!{EVALUATED_RUN}){RUN}",
    group:
        RUNS
    conda:
        ENVIRONMENT
    threads: THREADS
    resources:
        mem_mb=TRAINING_MB,
        cpus_per_task=THREADS,
        gpu=GPUS,
    params:
        VERSIONS["train"],
    # SLURM signals every process of a job. `exec` leaves no shell, which would end at once, and
    # Snakemake with it, before the training has written its checkpoint.
    shell:
        "exec python workflow/run.py train --run {wildcards.run:q} --model-file {input.model:q}"
        " > {log:q} 2>&1"


use rule train as train_with_trajectory with:
    output:
        record="results/runs/{run}/record.json",
        history="results/runs/{run}/history.csv",
        trajectory="results/runs/{run}/trajectory.csv",
        final="results/runs/{run}/final.npz",
        best="results/runs/{run}/best.npz",
        initial="results/runs/{run}/initial.npz",
        updates="results/runs/{run}/updates.npz",
    wildcard_constraints:
        run=EVALUATED_RUN,


rule snapshot:
    """Store the weights after an epoch, as the training kept them, or train to that epoch again."""
    input:
        record="results/runs/{run}/record.json",
        data=ancient(DATA),
        model=ancient(MODEL),
    output:
        # Snakemake does not delete the weights that a training kept.
        update("results/runs/{run}/epochs/{epoch}.npz"),
    log:
        "logs/snapshot/{run}/{epoch}.log",
    group:
        RUNS
    conda:
        ENVIRONMENT
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
