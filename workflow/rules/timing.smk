"""Timing: jobs that have the machine to themselves; every published time comes from one."""


rule time_epoch:
    input:
        data=ancient(lambda wildcards: jobs.dataset_record(wildcards.timing)),
        model=ancient(TIMING_MODEL),
    output:
        "results/timing/{machine}/{timing}/time_epoch/{settings}.json",
    log:
        "logs/time_epoch/{machine}/{timing}/{settings}.log",
    # Without it, jobs that ask for everything run last.
    priority: 100
    conda:
        "../../envs/batchscope.yaml"
    threads: ALONE
    resources:
        mem_mb=lambda wildcards, attempt: 2000 * 2 ** (attempt - 1),
        runtime=30,
        gpu=TIMING_GPUS,
        # What a cluster is asked for in place of `threads`.
        cpus_per_task=TIMING_THREADS,
        # Replaces the profile's default, so the signal stands here again.
        slurm_extra="--exclusive --signal=TERM@60",
    params:
        VERSIONS["time_epoch"],
    shell:
        "python workflow/run.py time_epoch --machine {wildcards.machine:q}"
        " --timing {wildcards.timing:q} --settings {wildcards.settings:q}"
        " --model-file {input.model:q} --output {output:q} > {log:q} 2>&1"
