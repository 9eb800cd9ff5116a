from snakemake.utils import min_version

min_version("9.0")


include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/command.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/measure.smk"
include: "workflow/rules/timing.smk"
include: "workflow/rules/study.smk"


rule all:
    """The report, and whatever is missing behind it."""
    default_target: True
    input:
        # A function, which other targets do not call.
        lambda wildcards: STUDY.targets(),


rule data:
    """The data sets of the study."""
    input:
        STUDY.data_targets(),


rule runs:
    """The trainings of the study."""
    input:
        STUDY.run_records(),
