"""Measures of a finished run, or of two: one file per run, measure and settings."""


rule evaluate:
    input:
        record="results/runs/{run}/record.json",
        final="results/runs/{run}/final.npz",
        best="results/runs/{run}/best.npz",
        early=lambda wildcards: jobs.snapshot(wildcards.run, "evaluate", wildcards.settings),
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
        gpu=MEASURE_GPUS,
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
        gpu=MEASURE_GPUS,
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


rule displacement:
    input:
        record="results/runs/{run}/record.json",
        final="results/runs/{run}/final.npz",
        initial=ancient("results/runs/{run}/initial.npz"),
        updates="results/runs/{run}/updates.npz",
    output:
        "results/runs/{run}/displacement/{settings}.json",
    log:
        "logs/displacement/{run}/{settings}.log",
    conda:
        "../../envs/batchscope.yaml"
    resources:
        mem_mb=lambda wildcards, attempt: 1000 * 2 ** (attempt - 1),
        runtime=10,
    params:
        VERSIONS["displacement"],
    shell:
        "python workflow/run.py displacement --run {wildcards.run:q}"
        " --settings {wildcards.settings:q} --output {output:q} > {log:q} 2>&1"


rule gradient_alignment:
    input:
        record="results/runs/{run}/record.json",
        final="results/runs/{run}/final.npz",
        middle="results/runs/{run}/epochs/middle.npz",
        initial=ancient("results/runs/{run}/initial.npz"),
        data=ancient(lambda wildcards: jobs.dataset_record(wildcards.run)),
        model=ancient(RUN_MODEL),
    output:
        "results/runs/{run}/gradient_alignment/{settings}.json",
    log:
        "logs/gradient_alignment/{run}/{settings}.log",
    conda:
        "../../envs/batchscope.yaml"
    resources:
        mem_mb=lambda wildcards, attempt: 4000 * 2 ** (attempt - 1),
        runtime=120,
        gpu=MEASURE_GPUS,
    params:
        VERSIONS["gradient_alignment"],
    shell:
        "python workflow/run.py gradient_alignment --run {wildcards.run:q}"
        " --settings {wildcards.settings:q} --model-file {input.model:q}"
        " --output {output:q} > {log:q} 2>&1"


rule hessian:
    input:
        record="results/runs/{run}/record.json",
        final="results/runs/{run}/final.npz",
        best="results/runs/{run}/best.npz",
        data=ancient(lambda wildcards: jobs.dataset_record(wildcards.run)),
        model=ancient(RUN_MODEL),
    output:
        "results/runs/{run}/hessian/{settings}.json",
    log:
        "logs/hessian/{run}/{settings}.log",
    conda:
        "../../envs/batchscope.yaml"
    resources:
        mem_mb=lambda wildcards, attempt: 4000 * 2 ** (attempt - 1),
        runtime=240,
        gpu=MEASURE_GPUS,
    params:
        VERSIONS["hessian"],
    shell:
        "python workflow/run.py hessian --run {wildcards.run:q}"
        " --settings {wildcards.settings:q} --model-file {input.model:q}"
        " --output {output:q} > {log:q} 2>&1"


rule sam_sharpness:
    input:
        record="results/runs/{run}/record.json",
        final="results/runs/{run}/final.npz",
        best="results/runs/{run}/best.npz",
        data=ancient(lambda wildcards: jobs.dataset_record(wildcards.run)),
        model=ancient(RUN_MODEL),
    output:
        "results/runs/{run}/sam_sharpness/{settings}.json",
    log:
        "logs/sam_sharpness/{run}/{settings}.log",
    conda:
        "../../envs/batchscope.yaml"
    resources:
        mem_mb=lambda wildcards, attempt: 4000 * 2 ** (attempt - 1),
        runtime=60,
        gpu=MEASURE_GPUS,
    params:
        VERSIONS["sam_sharpness"],
    shell:
        "python workflow/run.py sam_sharpness --run {wildcards.run:q}"
        " --settings {wildcards.settings:q} --model-file {input.model:q}"
        " --output {output:q} > {log:q} 2>&1"


rule landscape:
    input:
        record="results/runs/{run}/record.json",
        final="results/runs/{run}/final.npz",
        best="results/runs/{run}/best.npz",
        data=ancient(lambda wildcards: jobs.dataset_record(wildcards.run)),
        model=ancient(RUN_MODEL),
    output:
        record="results/runs/{run}/landscape/{settings}.json",
        surfaces="results/runs/{run}/landscape/{settings}.npz",
    log:
        "logs/landscape/{run}/{settings}.log",
    conda:
        "../../envs/batchscope.yaml"
    resources:
        mem_mb=lambda wildcards, attempt: 4000 * 2 ** (attempt - 1),
        runtime=480,
        gpu=MEASURE_GPUS,
    params:
        VERSIONS["landscape"],
    shell:
        "python workflow/run.py landscape --run {wildcards.run:q}"
        " --settings {wildcards.settings:q} --model-file {input.model:q}"
        " --output {output.record:q} > {log:q} 2>&1"


rule line:
    input:
        record="results/runs/{run}/record.json",
        final="results/runs/{run}/final.npz",
        best="results/runs/{run}/best.npz",
        other_record="results/runs/{other}/record.json",
        other_final="results/runs/{other}/final.npz",
        other_best="results/runs/{other}/best.npz",
        data=ancient(lambda wildcards: jobs.dataset_record(wildcards.run)),
        model=ancient(RUN_MODEL),
    output:
        "results/runs/{run}/line_to/{other}/{settings}.json",
    log:
        "logs/line/{run}/{other}/{settings}.log",
    conda:
        "../../envs/batchscope.yaml"
    resources:
        mem_mb=lambda wildcards, attempt: 2000 * 2 ** (attempt - 1),
        runtime=120,
        gpu=MEASURE_GPUS,
    params:
        VERSIONS["line"],
    shell:
        "python workflow/run.py line --run {wildcards.run:q} --other {wildcards.other:q}"
        " --settings {wildcards.settings:q} --model-file {input.model:q}"
        " --output {output:q} > {log:q} 2>&1"
