"""Glue: the study behind the rules. All that it calls lives in workflow/batchscope/jobs.py."""

import sys

sys.path.insert(0, f"{workflow.basedir}/workflow")

from batchscope import jobs
from batchscope.versions import VERSIONS

jobs.activate()
STUDY = jobs.Jobs.of(workflow.configfiles, config)

# One job at a time on a local GPU, unless --resources gpu=N says that there are more. On a
# cluster its own scheduler counts them.
if workflow.local_exec and "gpu" not in workflow.global_resources:
    workflow.register_resource("gpu", 1)

# Asks for more threads than any machine has: locally that is capped to --cores, so that the job
# runs alone; on a cluster to the profile's max-threads.
ALONE = 4096


wildcard_constraints:
    dataset=r"[a-z0-9_-]+",
    run=r"[a-z0-9_.=+-]+",
    timing=r"[a-z0-9_.=+-]+",
    settings=r"[a-z0-9_.=+-]+",
    machine=r"[A-Za-z0-9_.-]+",
    study=r"[a-z0-9_-]+",
    experiment=r"[a-z0-9_]+",
