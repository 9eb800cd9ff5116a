"""Measures of a finished run: one file per run, measure and settings."""


rule evaluate:
    input:
        record="results/runs/{run}/record.json",
        final="results/runs/{run}/final.npz",
        best="results/runs/{run}/best.npz",
        data=ancient(lambda wildcards: jobs.dataset_record(wildcards.run)),
        model=ancient(RUN_MODEL),
    output:
        "results/runs/{run}/evaluate/{settings}.json",
    log:
        "logs/evaluate/{run}/{settings}.log",
    conda:
        "../../envs/batchscope.yaml"
    resources:
        mem_mb=lambda wildcards, attempt: 2000 * 2 ** (attempt - 1),
        runtime=60,
        gpu=RUN_GPUS,
    params:
        VERSIONS["evaluate"],
    shell:
        "python workflow/run.py evaluate --run {wildcards.run:q}"
        " --settings {wildcards.settings:q} --model-file {input.model:q}"
        " --output {output:q} > {log:q} 2>&1"


rule sharpness:
    input:
        record="results/runs/{run}/record.json",
        final="results/runs/{run}/final.npz",
        best="results/runs/{run}/best.npz",
        data=ancient(lambda wildcards: jobs.dataset_record(wildcards.run)),
        model=ancient(RUN_MODEL),
    output:
        "results/runs/{run}/sharpness/{settings}.json",
    log:
        "logs/sharpness/{run}/{settings}.log",
    conda:
        "../../envs/batchscope.yaml"
    resources:
        mem_mb=lambda wildcards, attempt: 4000 * 2 ** (attempt - 1),
        runtime=240,
        gpu=RUN_GPUS,
    params:
        VERSIONS["sharpness"],
    shell:
        "python workflow/run.py sharpness --run {wildcards.run:q}"
        " --settings {wildcards.settings:q} --model-file {input.model:q}"
        " --output {output:q} > {log:q} 2>&1"


rule weight_distance:
    input:
        record="results/runs/{run}/record.json",
        final="results/runs/{run}/final.npz",
        best="results/runs/{run}/best.npz",
        # One file for all runs of a model and seed: the last of them to end has touched it.
        initial=ancient("results/runs/{run}/initial.npz"),
    output:
        "results/runs/{run}/weight_distance/{settings}.json",
    log:
        "logs/weight_distance/{run}/{settings}.log",
    conda:
        "../../envs/batchscope.yaml"
    resources:
        mem_mb=lambda wildcards, attempt: 1000 * 2 ** (attempt - 1),
        runtime=10,
    params:
        VERSIONS["weight_distance"],
    shell:
        "python workflow/run.py weight_distance --run {wildcards.run:q}"
        " --settings {wildcards.settings:q} --output {output:q} > {log:q} 2>&1"
