"""Jobs of a cluster: what Snakemake does on a node with the members of a group.

The executor starts one Snakemake on the node. It passes neither `--group-components` nor
`--keep-going`. That Snakemake would start another one for each connected component, on all cores of
the node.
"""

import os
import sys
from collections.abc import Callable
from typing import Any

from batchscope.host import memory_limits

# Resource of Snakemake -> variable of SLURM.
_VARIABLES = {"_cores": "SLURM_CPUS_PER_TASK", "gpu": "SLURM_GPUS_ON_NODE"}


def run_group(workflow: Any, groups: list[str], before_first_job: Callable[[], None]) -> None:
    """Let Snakemake run all members of a group by one process, within the allocation of the job.

    Args:
        workflow: Snakemake's workflow, before it is executed.
        groups: Names of the groups.
        before_first_job: Called by the process that runs the members.
    """
    for resource, variable in _VARIABLES.items():
        if (count := os.environ.get(variable, "")).isdecimal():
            workflow.register_resource(resource, int(count))
    workflow.register_resource("mem_mb", int(memory_limits.limit_mb()))
    execute = workflow.execute

    def execute_all(executor_plugin: Any, **settings: Any) -> None:
        workflow.group_settings.group_components = dict.fromkeys(groups, sys.maxsize)
        workflow.execution_settings.keep_going = True
        # srun starts the process that runs the members by a shell. Without a trap SIGTERM would end
        # the shell, and SLURM would kill the trainings that are writing their checkpoints.
        workflow.remote_execution_settings.precommand = "trap : TERM"
        if executor_plugin.common_settings.local_exec:
            before_first_job()
        execute(executor_plugin=executor_plugin, **settings)

    workflow.execute = execute_all
