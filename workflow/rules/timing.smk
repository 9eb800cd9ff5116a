"""Timing: jobs that have the machine to themselves; every published time comes from one."""


def timing_rule(entry):
    """Makes a rule; its command is evaluated again when a job starts, after the loop below."""

    rule:
        name:
            entry.name
        input:
            data=ancient(jobs.timed_data(entry)),
            model=ancient(TIMING_MODEL if entry.trains else SWEEP_MODEL),
        output:
            record=f"{jobs.output(entry)}.json",
            also=[directory(jobs.output(entry) + suffix) for suffix in entry.also_writes],
        log:
            jobs.log(entry),
        # Without it, jobs that ask for everything run last.
        priority: 100
        conda:
            "../../envs/batchscope.yaml"
        threads: ALONE
        resources:
            mem_mb=jobs.growing(entry.memory_mb),
            runtime=entry.minutes,
            gpu=TIMING_GPUS if entry.trains else SWEEP_GPUS,
            # What a cluster is asked for in place of `threads`.
            cpus_per_task=TIMING_THREADS if entry.trains else SWEEP_THREADS,
            # Replaces the profile's default, so the signal stands here again.
            slurm_extra="--exclusive --signal=TERM@60",
        params:
            entry.version,
        shell:
            jobs.command(entry)

    workflow.get_rule(entry.name).docstring = entry.doc


for ENTRY in TIMINGS.values():
    timing_rule(ENTRY)
