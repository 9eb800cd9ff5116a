"""The report: one HTML file per study."""


rule report:
    """Builds the report of the study."""
    input:
        tables=STUDY.tables(),
        figures=STUDY.figures(),
        config=STUDY.config_path,
        code=jobs.REPORT_CODE,
        logs=STUDY.quoted_logs(),
    output:
        page=STUDY.report,
        headline=STUDY.headline,
    log:
        f"logs/report/{STUDY.study.folder_name}.log",
    conda:
        "../../envs/batchscope.yaml"
    params:
        scale=STUDY.scale,
        partial="--partial" if STUDY.partial else "",
    shell:
        "python workflow/run.py report --config {input.config:q} --scale {params.scale:q}"
        " --output {output.page:q} {params.partial} > {log:q} 2>&1"
