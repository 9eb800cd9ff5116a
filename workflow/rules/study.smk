"""Tables, figures and report: cheap, so they depend on their own code, and run where Snakemake runs."""


localrules:
    complete,
    tabulate,
    claims,
    interim,
    figures,
    report,


rule complete:
    """Note when the last record of an experiment was made.

    An input costs Snakemake a checksum for each output of its job, and tables are many outputs.
    """
    input:
        lambda wildcards: inputs.table_sources(STUDY, wildcards.experiment),
    output:
        "results/studies/{study}/{experiment}/complete.txt",
    log:
        "logs/complete/{study}/{experiment}.log",
    conda:
        ENVIRONMENT
    shell:
        "date --iso-8601=ns > {output:q} 2> {log:q}"


rule tabulate:
    """Write the tidy tables of an experiment."""
    input:
        complete="results/studies/{study}/{experiment}/complete.txt",
        code=inputs.TABLE_CODE,
    output:
        inputs.TABLES,
        # Not deleted before the job: the targets of the first analysis stay.
        targets=update("results/studies/{study}/{experiment}/default_targets.json"),
    log:
        "logs/tabulate/{study}/{experiment}.log",
    conda:
        ENVIRONMENT
    params:
        **PARAMS,
        # What the tables read of the configuration besides the names of records.
        followed=lambda wildcards: inputs.configuration_parts(STUDY, wildcards.experiment),
    shell:
        "python workflow/run.py tabulate --config {params.config:q} --scale {params.scale:q}"
        " --experiment {wildcards.experiment:q}"
        " --output results/studies/{wildcards.study:q}/{wildcards.experiment:q} > {log:q} 2>&1"


rule claims:
    """Test the claims of the study's documents."""
    input:
        tables=inputs.tables_behind_claims(STUDY),
        config=CONFIG,
        code=inputs.TABLE_CODE,
    output:
        "results/studies/{study}/claims.csv",
    log:
        "logs/claims/{study}.log",
    conda:
        ENVIRONMENT
    params:
        **PARAMS,
    shell:
        "python workflow/run.py claims --config {params.config:q} --scale {params.scale:q}"
        " --output {output:q} > {log:q} 2>&1"


rule interim:
    """Analyse the statements that are still open, and give their runs more seeds."""
    input:
        tables=inputs.all_tables(STUDY),
        claims=inputs.claims_table(STUDY),
        # Written last: later jobs of this call would plan the next stage, whose runs are missing.
        report=ancient(STUDY.report),
    output:
        "results/studies/{study}/interims/{number}.csv",
    log:
        "logs/interim/{study}/{number}.log",
    conda:
        ENVIRONMENT
    params:
        **PARAMS,
    shell:
        "python workflow/run.py interim --config {params.config:q} --scale {params.scale:q}"
        " --output {output:q} > {log:q} 2>&1"


rule figures:
    """Draw the figures of an experiment that have something to show."""
    input:
        tables=inputs.TABLES,
        config=CONFIG,
        style="workflow/report/batchscope.mplstyle",
        code=inputs.FIGURE_CODE,
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
    threads: lambda wildcards: resources.figure_processes(STUDY, wildcards.experiment)
    params:
        **PARAMS,
    shell:
        "python workflow/run.py figures --config {params.config:q} --scale {params.scale:q}"
        " --experiment {wildcards.experiment:q} --processes {threads}"
        " --tables results/studies/{wildcards.study:q}/{wildcards.experiment:q}"
        " --output {output:q} > {log:q} 2>&1"


rule report:
    """Build the report of the study."""
    input:
        tables=inputs.all_tables(STUDY),
        figures=inputs.all_figures(STUDY),
        claims=inputs.claims_table(STUDY),
        config=CONFIG,
        code=inputs.REPORT_CODE,
        logs=inputs.logs_of_missing_results(STUDY),
    output:
        page=STUDY.report,
        headline=STUDY.headline,
    log:
        f"logs/report/{STUDY.plan.folder_name}.log",
    conda:
        ENVIRONMENT
    params:
        **PARAMS,
        partial="--partial" if STUDY.partial else "",
    shell:
        "python workflow/run.py report --config {params.config:q} --scale {params.scale:q}"
        " --output {output.page:q} {params.partial} > {log:q} 2>&1"
