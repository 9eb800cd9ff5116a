from snakemake.utils import min_version

min_version("9.0")


include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/command.smk"
include: "workflow/rules/bundle.smk"
include: "workflow/rules/study.smk"


# Where jobs are bundled, what they leave is no rule's.
if not STUDY.bundled:

    include: "workflow/rules/train.smk"
    include: "workflow/rules/measure.smk"
    include: "workflow/rules/timing.smk"


rule all:
    """The report, and whatever is missing behind it."""
    default_target: True
    input:
        # A function: other targets, the jobs of a cluster among them, do without it.
        everything,


rule data:
    """The data sets of the study."""
    input:
        STUDY.data_records(),


rule runs:
    """The trainings of the study."""
    input:
        STUDY.run_records(),
