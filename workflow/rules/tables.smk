"""Tables and figures of each experiment: cheap, so they depend on their own code."""


rule tabulate:
    """Writes the tidy tables of an experiment."""
    input:
        records=lambda wildcards: STUDY.table_inputs(wildcards.experiment),
        code=jobs.TABLE_CODE,
    output:
        multiext("results/studies/{study}/{experiment}/", *jobs.TABLES),
    log:
        "logs/tabulate/{study}/{experiment}.log",
    conda:
        ENVIRONMENT
    params:
        config=lambda wildcards: STUDY.config_path,
        scale=STUDY.scale,
        # What the tables read of the configuration besides the records' names.
        also=lambda wildcards: STUDY.also(wildcards.experiment),
    shell:
        "python workflow/run.py tabulate --config {params.config:q} --scale {params.scale:q}"
        " --experiment {wildcards.experiment:q}"
        " --output results/studies/{wildcards.study:q}/{wildcards.experiment:q} > {log:q} 2>&1"


rule claims:
    """Tests what the documents of the study state."""
    input:
        tables=STUDY.claim_tables(),
        config=CONFIG,
        code=jobs.TABLE_CODE,
    output:
        STUDY.claims,
    log:
        f"logs/claims/{STUDY.study.folder_name}.log",
    conda:
        ENVIRONMENT
    params:
        config=lambda wildcards: STUDY.config_path,
        scale=STUDY.scale,
    shell:
        "python workflow/run.py claims --config {params.config:q} --scale {params.scale:q}"
        " --output {output:q} > {log:q} 2>&1"


rule figures:
    """Draws the figures of an experiment that have something to show."""
    input:
        tables=multiext("results/studies/{study}/{experiment}/", *jobs.TABLES),
        config=CONFIG,
        style="workflow/report/batchscope.mplstyle",
        code=jobs.FIGURE_CODE,
    output:
        report(
            directory("results/studies/{study}/{experiment}/figures"),
            patterns=["{figure}.svg"],
            caption="../report/figure.rst",
            category="{study}",
            subcategory="{experiment}",
            labels={"figure": "{figure}"},
        ),
    log:
        "logs/figures/{study}/{experiment}.log",
    conda:
        ENVIRONMENT
    threads: lambda wildcards: STUDY.figure_processes(wildcards.experiment)
    params:
        config=lambda wildcards: STUDY.config_path,
        scale=STUDY.scale,
    shell:
        "python workflow/run.py figures --config {params.config:q} --scale {params.scale:q}"
        " --experiment {wildcards.experiment:q} --processes {threads}"
        " --tables results/studies/{wildcards.study:q}/{wildcards.experiment:q}"
        " --output {output:q} > {log:q} 2>&1"
