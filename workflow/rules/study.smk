"""Tables, figures and pages: cheap, so they depend on their own code, and no cluster is asked."""


localrules:
    tabulate,
    claims,
    look,
    figures,
    report,


rule tabulate:
    """Writes the tidy tables of an experiment."""
    input:
        records=lambda wildcards: STUDY.table_inputs(wildcards.experiment),
        code=jobs.TABLE_CODE,
    output:
        parts.experiment_tables(),
        # Not deleted before the job: the targets of the first analysis stay.
        targets=update(parts.default_targets()),
    log:
        "logs/tabulate/{study}/{experiment}.log",
    conda:
        ENVIRONMENT
    params:
        **PARAMS,
        # What the tables read of the configuration besides the records' names.
        also=lambda wildcards: STUDY.also(wildcards.experiment),
    shell:
        parts.of_study(
            "tabulate",
            "--experiment {wildcards.experiment:q}"
            " --output results/studies/{wildcards.study:q}/{wildcards.experiment:q}",
        )


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
        **PARAMS,
    shell:
        parts.of_study("claims")


rule look:
    """Looks at what is open, and gives the runs that it needs more seeds."""
    input:
        tables=STUDY.tables(),
        claims=STUDY.stated(),
    output:
        parts.look_table(),
    log:
        "logs/look/{study}/{look}.log",
    conda:
        ENVIRONMENT
    params:
        **PARAMS,
    shell:
        parts.of_study("look", "--output {output:q}")


rule figures:
    """Draws the figures of an experiment that have something to show."""
    input:
        tables=parts.experiment_tables(),
        config=CONFIG,
        style="workflow/report/batchscope.mplstyle",
        code=jobs.FIGURE_CODE,
    output:
        report(
            directory(parts.figures_folder()),
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
        **PARAMS,
    shell:
        parts.of_study(
            "figures",
            "--experiment {wildcards.experiment:q} --processes {threads}"
            " --tables results/studies/{wildcards.study:q}/{wildcards.experiment:q}"
            " --output {output:q}",
        )


rule report:
    """Builds the report of the study."""
    input:
        tables=STUDY.tables(),
        figures=STUDY.figures(),
        claims=STUDY.stated(),
        config=CONFIG,
        code=jobs.REPORT_CODE,
        logs=STUDY.quoted_logs(),
    output:
        page=STUDY.report,
        headline=STUDY.headline,
    log:
        f"logs/report/{STUDY.study.folder_name}.log",
    conda:
        ENVIRONMENT
    params:
        **PARAMS,
        partial="--partial" if STUDY.partial else "",
    shell:
        parts.of_study("report", "--output {output.page:q} {params.partial}")
