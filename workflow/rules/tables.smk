"""Tables and figures of each experiment: cheap, so they depend on their own code."""


rule tabulate:
    input:
        records=lambda wildcards: STUDY.table_inputs(wildcards.experiment),
        code=jobs.TABLE_CODE,
    output:
        multiext("results/studies/{study}/{experiment}/", *jobs.TABLES),
    log:
        "logs/tabulate/{study}/{experiment}.log",
    conda:
        "../../envs/batchscope.yaml"
    params:
        config=STUDY.config_path,
        scale=STUDY.scale,
        # What the tables read of the configuration besides the records' names.
        also=lambda wildcards: STUDY.also(wildcards.experiment),
    shell:
        "python workflow/run.py tabulate --config {params.config:q} --scale {params.scale:q}"
        " --experiment {wildcards.experiment:q}"
        " --output results/studies/{wildcards.study:q}/{wildcards.experiment:q} > {log:q} 2>&1"


rule figures:
    input:
        tables=multiext("results/studies/{study}/{experiment}/", *jobs.TABLES),
        config=STUDY.config_path,
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
        "../../envs/batchscope.yaml"
    params:
        scale=STUDY.scale,
    shell:
        "python workflow/run.py figures --config {input.config:q} --scale {params.scale:q}"
        " --experiment {wildcards.experiment:q}"
        " --tables results/studies/{wildcards.study:q}/{wildcards.experiment:q}"
        " --output {output:q} > {log:q} 2>&1"
