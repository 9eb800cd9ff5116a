"""Runs that a command of the user's makes, each in a folder of its own."""


rule run_command:
    """Makes one run by the user's own command, and records how it ended and what it used."""
    output:
        **parts.commanded(),
    log:
        parts.log(parts.run_file("{command}")),
    priority: STUDY.of_command(lambda one: int(one.alone))
    conda:
        ENVIRONMENT
    threads: STUDY.of_command(lambda one: ALONE if one.alone else one.threads)
    resources:
        mem_mb=lambda wildcards: parts.run_memory_mb(
            wildcards.command, STUDY.command(wildcards).memory_mb
        ),
        runtime=240,
        gpu=STUDY.of_command(lambda one: one.gpus),
        cpus_per_task=STUDY.of_command(lambda one: one.threads),
        alone=STUDY.of_command(lambda one: int(one.alone)),
        # Replaces the profile's default, so the signal stands here again.
        slurm_extra=STUDY.of_command(lambda one: f"{'--exclusive ' * one.alone}--signal=TERM@60"),
    params:
        VERSIONS["run_command"],
    # `exec`: as of a training, so that the signal before its time is up reaches the job alone.
    shell:
        "exec python workflow/run.py run_command --command {wildcards.command:q} > {log:q} 2>&1"
