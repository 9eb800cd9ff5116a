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


rule throughput:
    input:
        data=ancient(lambda wildcards: jobs.dataset_record(wildcards.sweep)),
        model=ancient(SWEEP_MODEL),
    output:
        "results/timing/{machine}/{sweep}/throughput/{settings}.json",
    log:
        "logs/throughput/{machine}/{sweep}/{settings}.log",
    priority: 100
    conda:
        "../../envs/batchscope.yaml"
    threads: ALONE
    resources:
        mem_mb=lambda wildcards, attempt: 4000 * 2 ** (attempt - 1),
        runtime=240,
        gpu=lambda wildcards: jobs.sweep_gpus(wildcards.sweep),
        cpus_per_task=lambda wildcards: jobs.sweep_threads(wildcards.sweep),
        slurm_extra="--exclusive --signal=TERM@60",
    params:
        VERSIONS["throughput"],
    shell:
        "python workflow/run.py throughput --machine {wildcards.machine:q}"
        " --sweep {wildcards.sweep:q} --settings {wildcards.settings:q}"
        " --model-file {input.model:q} --output {output:q} > {log:q} 2>&1"


rule utilisation:
    input:
        data=ancient(lambda wildcards: jobs.dataset_record(wildcards.sweep)),
        model=ancient(SWEEP_MODEL),
    output:
        "results/timing/{machine}/{sweep}/utilisation/{settings}.json",
    log:
        "logs/utilisation/{machine}/{sweep}/{settings}.log",
    priority: 100
    conda:
        "../../envs/batchscope.yaml"
    threads: ALONE
    resources:
        mem_mb=lambda wildcards, attempt: 4000 * 2 ** (attempt - 1),
        runtime=60,
        gpu=lambda wildcards: jobs.sweep_gpus(wildcards.sweep),
        cpus_per_task=lambda wildcards: jobs.sweep_threads(wildcards.sweep),
        slurm_extra="--exclusive --signal=TERM@60",
    params:
        VERSIONS["utilisation"],
    shell:
        "python workflow/run.py utilisation --machine {wildcards.machine:q}"
        " --sweep {wildcards.sweep:q} --settings {wildcards.settings:q}"
        " --model-file {input.model:q} --output {output:q} > {log:q} 2>&1"


rule max_batch_size:
    input:
        data=ancient(lambda wildcards: jobs.dataset_record(wildcards.sweep)),
        model=ancient(SWEEP_MODEL),
    output:
        "results/timing/{machine}/{sweep}/max_batch_size/{settings}.json",
    log:
        "logs/max_batch_size/{machine}/{sweep}/{settings}.log",
    priority: 100
    conda:
        "../../envs/batchscope.yaml"
    threads: ALONE
    resources:
        mem_mb=lambda wildcards, attempt: 4000 * 2 ** (attempt - 1),
        runtime=240,
        gpu=lambda wildcards: jobs.sweep_gpus(wildcards.sweep),
        cpus_per_task=lambda wildcards: jobs.sweep_threads(wildcards.sweep),
        slurm_extra="--exclusive --signal=TERM@60",
    params:
        VERSIONS["max_batch_size"],
    shell:
        "python workflow/run.py max_batch_size --machine {wildcards.machine:q}"
        " --sweep {wildcards.sweep:q} --settings {wildcards.settings:q}"
        " --model-file {input.model:q} --output {output:q} > {log:q} 2>&1"


rule profile:
    input:
        data=ancient(lambda wildcards: jobs.dataset_record(wildcards.sweep)),
        model=ancient(SWEEP_MODEL),
    output:
        record="results/timing/{machine}/{sweep}/profile/{settings}.json",
        trace=directory("results/timing/{machine}/{sweep}/profile/{settings}"),
    log:
        "logs/profile/{machine}/{sweep}/{settings}.log",
    priority: 100
    conda:
        "../../envs/batchscope.yaml"
    threads: ALONE
    resources:
        mem_mb=lambda wildcards, attempt: 4000 * 2 ** (attempt - 1),
        runtime=30,
        gpu=lambda wildcards: jobs.sweep_gpus(wildcards.sweep),
        cpus_per_task=lambda wildcards: jobs.sweep_threads(wildcards.sweep),
        slurm_extra="--exclusive --signal=TERM@60",
    params:
        VERSIONS["profile"],
    shell:
        "python workflow/run.py profile --machine {wildcards.machine:q}"
        " --sweep {wildcards.sweep:q} --settings {wildcards.settings:q}"
        " --model-file {input.model:q} --output {output.record:q} > {log:q} 2>&1"
