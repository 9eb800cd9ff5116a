from snakemake.utils import min_version

min_version("9.0")


# A study is run alone: --configfile replaces the default study, it is never merged with it.
if not workflow.configfiles:

    configfile: "config.yaml"


include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/measure.smk"
include: "workflow/rules/frameworks.smk"
include: "workflow/rules/timing.smk"
include: "workflow/rules/tables.smk"
include: "workflow/rules/report.smk"


rule all:
    default_target: True
    input:
        STUDY.report,
        # Snakemake misses what lies behind a report that is there only where it is asked for.
        STUDY.behind_the_report(),


rule data:
    input:
        STUDY.data_records(),


rule runs:
    input:
        STUDY.run_records(),
