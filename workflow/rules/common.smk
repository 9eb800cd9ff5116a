"""Glue: the study behind the rules. All that it calls lives in the modules of batchscope."""

import sys
import time

sys.path.insert(0, f"{workflow.basedir}/workflow")

from batchscope import project_files, rule_parts as parts, snakefile as jobs
from batchscope.host import allocation, warm_process
from batchscope.study.names import COMMAND_PATTERN as COMMAND
from batchscope.study.registry import MEASURES, TIMINGS
from batchscope.study.versions import VERSIONS


# With --sdm apptainer: the image of the Containerfile, which is built and not downloaded.
container: "batchscope.sif"


STARTED = time.time()
GIVEN = workflow.global_resources
jobs.activate(gpus="gpu" in GIVEN and GIVEN["gpu"].value > 0, scheduled=workflow.remote_exec)
# A study is run alone: --configfile replaces the default study, it is never merged with it. There
# is no `configfile:` here, for Snakemake names no line of a broken file.
# Snakemake is given a number of jobs in place of one of cores for a cluster; in a dry-run it makes
# that one, and the GPUs of a cluster's profile tell.
STUDY = jobs.Jobs.of(
    workflow.configfiles,
    workflow.config_settings.config,
    cluster=workflow.nodes is not None and (GIVEN["_cores"].value is None or "gpu" in GIVEN),
    remote=workflow.remote_exec,
)
CONFIG = parts.literal(STUDY.config_path)  # as an input; commands have the path itself
PARAMS = {"config": lambda wildcards: STUDY.config_path, "scale": STUDY.scale}
ENVIRONMENT = parts.environment(workflow.basedir)

# One job at a time on a GPU, unless --resources gpu=N says that there are more: a cluster's
# profile does, for there a scheduler counts them. (The executor is not known yet here.)
if "gpu" not in GIVEN:
    workflow.register_resource("gpu", 1)

# Asks for more threads than any machine has: locally that is capped to --cores, so that the job
# runs alone. A cluster is asked for cpus_per_task instead, on a node for itself.
ALONE = 4096

RUN = rf"(?!{COMMAND})[a-z0-9_.=+-]+"
EVALUATED_RUN = rf"(?!{COMMAND})[a-z0-9_.=+-]+\+ee=[a-z0-9_.=+-]+"  # also within its epochs

# Groups: `--group-components` sets how many runs, or timings, are one job of a cluster. Local jobs are
# not grouped, and a dry-run would pay for groups.
CLUSTER = workflow.nodes is not None or workflow.remote_exec
RUNS, TIMING = ("runs", "timing") if CLUSTER else (None, None)

# A function costs time for each job; one machine needs none.
TRAINING_MB = (lambda wildcards: parts.run_memory_mb(wildcards.run, 2000)) if CLUSTER else 2000

# What a training, a measure of one or a timing needs besides its data.
MODEL = STUDY.shared(STUDY.model_file)
GPUS = STUDY.shared(parts.gpus)
MEASURE_GPUS = STUDY.shared(parts.measure_gpus)
THREADS = STUDY.shared(parts.threads)


# A rule's warning that is of no use to a user.
logger.addFilter(jobs.deserves_a_line)


def start_fork_server():
    if STUDY.study.runs:
        warm_process.launch(project_files.WORKFLOW)


if workflow.remote_exec:
    allocation.run_group(workflow, [RUNS, TIMING], start_fork_server)


onstart:
    STUDY.claim()
    # No part of a training's command: another study's would train every run again.
    STUDY.note_epochs()
    STUDY.note_commands()
    if workflow.local_exec:
        # Snakemake's limit of jobs per second is for schedulers of clusters. It looks again for jobs
        # to start a second after each time that it looked: for ever, and once more per second for
        # each job that ended.
        workflow.scheduler.job_rate_limiter = None
        warm_process.announce()
        start_fork_server()
    STUDY.check()


onsuccess:
    STUDY.check_targets(
        [path for job in workflow.dag.targetjobs for path in (*job.output, *job.input)]
    )
    if news := STUDY.news(STARTED):
        logger.info(news)


onerror:
    if remedy := STUDY.remedy():
        logger.error(remedy)


wildcard_constraints:
    **dict.fromkeys(("timing", "sweep", "settings"), r"[a-z0-9_.=+-]+"),
    # A command's run is neither trained nor measured.
    **dict.fromkeys(("run", "other"), RUN),
    command=COMMAND,
    dataset=r"[a-z0-9_-]+",
    epoch=r"[0-9]+|middle",
    look=r"[0-9]+",
    # Of other machines nothing is made here.
    machine=STUDY.study.machine,
    # Tables of other studies are read, where they are named as one's own runs, and never made.
    study=STUDY.study.folder_name,
    experiment=r"[a-z0-9_]+",
