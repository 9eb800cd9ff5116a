"""The report, one HTML file per study, and the ledger of all studies."""


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
        config=lambda wildcards: STUDY.config_path,
        scale=STUDY.scale,
        partial="--partial" if STUDY.partial else "",
    shell:
        "python workflow/run.py report --config {params.config:q} --scale {params.scale:q}"
        " --output {output.page:q} {params.partial} > {log:q} 2>&1"


rule ledger:
    """What every study here says of its documents' claims, on one page."""
    input:
        claims=lambda wildcards: STUDY.ledger_tables(),
        code=jobs.REPORT_CODE,
    output:
        "results/ledger.html",
    log:
        "logs/ledger.log",
    conda:
        ENVIRONMENT
    shell:
        "python workflow/run.py ledger --output {output:q} > {log:q} 2>&1"
