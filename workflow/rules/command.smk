"""Runs of the user's commands, each in a folder of its own."""


rule run_command:
    """Make one run with the user's command, and record its status and what it used."""
    output:
        record="results/runs/{command}/record.json",
        trajectory="results/runs/{command}/trajectory.csv",
    log:
        "logs/run_command/{command}.log",
    priority: resources.command_resources(STUDY, lambda command: int(command.alone))
    conda:
        ENVIRONMENT
    threads: resources.command_resources(STUDY, resources.command_threads)
    resources:
        mem_mb=resources.command_memory(STUDY),
        runtime=240,
        gpu=resources.command_resources(STUDY, lambda command: command.gpus),
        cpus_per_task=resources.command_resources(STUDY, lambda command: command.threads),
        alone=resources.command_resources(STUDY, lambda command: int(command.alone)),
        # Replaces the profile's default, so it repeats the signal.
        slurm_extra=resources.command_resources(STUDY, resources.slurm_options),
    params:
        VERSIONS["run_command"],
    # `exec`, as for a training.
    shell:
        "exec python workflow/run.py run_command --command {wildcards.command:q} > {log:q} 2>&1"
