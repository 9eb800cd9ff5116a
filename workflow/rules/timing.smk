"""Timing: jobs that have the machine to themselves; every published time comes from one."""

for ENTRY in TIMINGS.values():

    rule:
        name:
            ENTRY.name
        input:
            data=ancient(parts.timed_data(ENTRY)),
            model=ancient(TIMING_MODEL if ENTRY.trains else SWEEP_MODEL),
        output:
            record=parts.output(ENTRY),
            also=[directory(path) for path in parts.beside(ENTRY)],
        log:
            parts.log(parts.output(ENTRY)),
        priority: parts.turn(ENTRY.name)
        conda:
            ENVIRONMENT
        threads: ALONE
        resources:
            mem_mb=parts.growing(ENTRY.memory_mb),
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
            parts.command(locals().get("rule", ENTRY.name))

    workflow.get_rule(ENTRY.name).docstring = ENTRY.doc
