"""Timing: jobs that have the machine to themselves; every published time comes from one."""

for ENTRY in TIMINGS.values():

    rule:
        name:
            ENTRY.name
        input:
            data=ancient(jobs.timed_data(ENTRY)),
            model=ancient(TIMING_MODEL if ENTRY.trains else SWEEP_MODEL),
        output:
            record=jobs.output(ENTRY),
            also=[directory(path) for path in jobs.beside(ENTRY)],
        log:
            jobs.log(jobs.output(ENTRY)),
        priority: jobs.turn(ENTRY.name)
        conda:
            ENVIRONMENT
        threads: ALONE
        resources:
            mem_mb=jobs.growing(ENTRY.memory_mb),
            runtime=ENTRY.minutes,
            gpu=TIMING_GPUS if ENTRY.trains else SWEEP_GPUS,
            # What a cluster is asked for in place of `threads`.
            cpus_per_task=TIMING_THREADS if ENTRY.trains else SWEEP_THREADS,
            # Replaces the profile's default, so the signal stands here again.
            slurm_extra="--exclusive --signal=TERM@60",
        params:
            ENTRY.version,
        shell:
            # Evaluated anew when a job runs, and ENTRY is the last of all by then.
            jobs.command(locals().get("rule", ENTRY.name))

    workflow.get_rule(ENTRY.name).docstring = ENTRY.doc
