"""The study of this call, what its rules share, and what happens before and after the jobs."""

import sys

sys.path.insert(0, f"{workflow.basedir}/workflow")

from batchscope.core import project_files
from batchscope.host import fork_server
from batchscope.rules import inputs, resources, session, study
from batchscope.study.names import COMMAND_PATTERN as COMMAND
from batchscope.study.registry import MEASURES, TIMINGS, VERSIONS
from snakemake.scheduling.job_scheduler import JobScheduler


# With --sdm apptainer: the image of the Containerfile, which is built and not downloaded.
container: "batchscope.sif"


GIVEN = workflow.global_resources
session.prepare_environment(
    gpus="gpu" in GIVEN and GIVEN["gpu"].value > 0, scheduled=workflow.remote_exec
)
# A cluster has a number of jobs in place of one of cores. Its profile states a number of GPUs, which
# its scheduler counts; a dry-run on one machine has a number of jobs too.
CLUSTER = workflow.remote_exec or (workflow.nodes is not None and "gpu" in GIVEN)
# --configfile replaces the default study. There is no `configfile:` here, since Snakemake merges
# both, and names no line of an invalid file.
STUDY = study.study_of_call(workflow.configfiles, workflow.config_settings.config)
CONFIG = inputs.checked_path(STUDY.config_path)  # as an input; commands have the path itself
PARAMS = {"config": lambda wildcards: STUDY.config_path, "scale": STUDY.scale}
ENVIRONMENT = inputs.environment_file(workflow.basedir)

# One job at a time on a GPU, unless --resources gpu=N says that there are more. No GPU is assigned.
if "gpu" not in GIVEN:
    workflow.register_resource("gpu", 1)

# Of a training or a timing, from its name.
DATA = inputs.value_of_each_job(STUDY, inputs.dataset_record)
MODEL = inputs.value_of_each_job(STUDY, lambda name: inputs.model_file(STUDY, name))
GPUS = inputs.value_of_each_job(STUDY, resources.gpus)
MEASURE_GPUS = inputs.value_of_each_job(STUDY, resources.measure_gpus)
THREADS = inputs.value_of_each_job(STUDY, resources.threads)

# Groups: `--group-components` sets how many runs, or timings, are one job of a cluster. Grouping
# takes time, and one machine needs no groups.
RUNS, TIMING = ("runs", "timing") if CLUSTER else (None, None)

# A function costs time for each job; one machine needs none.
TRAINING_MB = resources.training_memory(2000) if CLUSTER else 2000

logger.addFilter(session.is_shown)
session.handle_sigterm_in_a_thread(JobScheduler)


def start_fork_server():
    if STUDY.plan.runs:
        fork_server.launch(project_files.WORKFLOW)


if workflow.remote_exec:
    session.run_group_by_one_process(workflow, [RUNS, TIMING], start_fork_server)


onstart:
    # Jobs on this machine fork from one process that has TensorFlow imported.
    if workflow.local_exec:
        # This limit of jobs per second is for schedulers of clusters. It looks for jobs to start
        # once more per second for each job that ended.
        workflow.scheduler.job_rate_limiter = None
        fork_server.announce()
        start_fork_server()
    session.start(STUDY)


onsuccess:
    # Snakemake makes nothing behind a data set that it makes again.
    made = [path for job in workflow.dag.targetjobs for path in (*job.output, *job.input)]
    inputs.check_exists(made)
    for line in session.closing_lines(STUDY, made):
        logger.info(line)


RUN = rf"(?!{COMMAND})[a-z0-9_.=+-]+"  # a command's run is neither trained nor measured
EVALUATED_RUN = rf"{RUN}\+ee=[a-z0-9_.=+-]+"  # evaluated within its epochs


wildcard_constraints:
    **dict.fromkeys(("timing", "sweep", "settings"), r"[a-z0-9_.=+-]+"),
    **dict.fromkeys(("run", "other"), RUN),
    command=COMMAND,
    dataset=r"[a-z0-9_-]+",
    epoch=r"[0-9]+|middle",
    number=r"[0-9]+",
    # Results of other machines, and tables of other studies, are read and never made.
    machine=STUDY.plan.machine,
    study=STUDY.plan.folder_name,
    experiment=r"[a-z0-9_]+",
