"""Run the members of a group of Snakemake on a cluster's node by one process.

The executor of a cluster starts one Snakemake on the node, without `--group-components` and
`--keep-going`. By default, that Snakemake would start another Snakemake for each connected
component of the group, on all cores of the node.
"""

import os
import sys
from collections.abc import Callable
from typing import Any

from batchscope.host import memory_limits

# Resource of Snakemake -> environment variable of SLURM with its amount.
_SLURM_VARIABLES = {"_cores": "SLURM_CPUS_PER_TASK", "gpu": "SLURM_GPUS_ON_NODE"}


def run_by_one_process(
    workflow: Any, groups: list[str], before_first_job: Callable[[], None]
) -> None:
    """Let Snakemake run all members of a group by one process, within the job's resources.

    Args:
        workflow: Snakemake's workflow, before it is executed.
        groups: Names of the groups.
        before_first_job: Called by the process that runs the members.
    """
    for resource, variable in _SLURM_VARIABLES.items():
        if (count := os.environ.get(variable, "")).isdecimal():
            workflow.register_resource(resource, int(count))
    workflow.register_resource("mem_mb", int(memory_limits.limit_mb()))
    execute = workflow.execute

    def execute_all(executor_plugin: Any, **settings: Any) -> None:
        workflow.group_settings.group_components = dict.fromkeys(groups, sys.maxsize)
        workflow.execution_settings.keep_going = True
        # srun starts that process by a shell. Without a trap, SIGTERM would end the shell, and
        # SLURM would kill the trainings while they write their checkpoints.
        workflow.remote_execution_settings.precommand = "trap : TERM"
        if executor_plugin.common_settings.local_exec:
            before_first_job()
        execute(executor_plugin=executor_plugin, **settings)

    workflow.execute = execute_all
