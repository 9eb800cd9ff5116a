from snakemake.utils import min_version

min_version("9.0")


include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/command.smk"
include: "workflow/rules/measure.smk"
include: "workflow/rules/timing.smk"
include: "workflow/rules/study.smk"


rule all:
    """The report, the interim analysis of this stage, and every missing file behind them."""
    default_target: True
    input:
        # A function, which other targets do not call.
        lambda wildcards: inputs.all_targets(STUDY),


rule data:
    """The data sets of the study."""
    input:
        inputs.data_targets(STUDY),


rule runs:
    """The runs of the study."""
    input:
        inputs.run_targets(STUDY),
