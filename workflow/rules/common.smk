"""Glue: the study behind the rules. All that it calls lives in the modules of batchscope."""

import sys
import time

sys.path.insert(0, f"{workflow.basedir}/workflow")

from batchscope import once_more, project_files, rule_parts as parts, snakefile as jobs
from batchscope.host import fork_server
from batchscope.store import leftovers
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

# What a training, a measure of one or a timing needs besides its data.
MODEL = STUDY.shared(STUDY.model_file)
GPUS = STUDY.shared(parts.gpus)
MEASURE_GPUS = STUDY.shared(parts.measure_gpus)
THREADS = STUDY.shared(parts.threads)


# A rule's warning that is of no use to a user.
logger.addFilter(jobs.deserves_a_line)


def everything(wildcards):
    """Inputs of the whole study; what is there and lacks a file of its own is made again."""
    workflow.dag.forcefiles.update(STUDY.damaged())
    return STUDY.targets()


onstart:
    leftovers.sweep(parts.RESULTS)
    STUDY.claim()
    # No part of a training's command: another study's would train every run again.
    STUDY.note_epochs()
    STUDY.note_commands()
    # Local jobs fork from one process that has TensorFlow imported; a cluster's import it. What is
    # trained here needs it, and nothing else.
    if workflow.local_exec:
        # Snakemake's limit of jobs per second is for schedulers of clusters. It looks again for jobs
        # to start a second after each time that it looked: for ever, and once more per second for
        # each job that ended.
        workflow.scheduler.job_rate_limiter = None
        fork_server.announce()
    if workflow.local_exec and STUDY.study.runs:
        fork_server.launch(project_files.WORKFLOW)
    STUDY.check()
    if any(job.rule.name == "bundle" for job in workflow.dag.jobs):
        STUDY.bundles.write()


onsuccess:
    made = [path for job in workflow.dag.targetjobs for path in (*job.output, *job.input)]
    once_more.go_on(STUDY, made, {job.rule.name for job in workflow.dag.jobs})
    if news := STUDY.news(STARTED):
        logger.info(news)


onerror:
    if remedy := STUDY.remedy():
        logger.error(remedy)


wildcard_constraints:
    **dict.fromkeys(("timing", "sweep", "settings"), r"[a-z0-9_.=+-]+"),
    # What a command makes is neither trained nor measured.
    **dict.fromkeys(("run", "other"), rf"(?!{COMMAND})[a-z0-9_.=+-]+"),
    command=COMMAND,
    dataset=r"[a-z0-9_-]+",
    epoch=r"[0-9]+|middle",
    look=r"[0-9]+",
    bundle=r"[0-9a-f]+",
    # Of other machines nothing is made here.
    machine=STUDY.study.machine,
    # Tables of other studies are read, where they are named as one's own runs, and never made.
    study=STUDY.study.folder_name,
    experiment=r"[a-z0-9_]+",
