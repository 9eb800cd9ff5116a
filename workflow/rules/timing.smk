"""Timing: jobs that have the machine to themselves; every published time comes from one."""

for ENTRY in TIMINGS.values():

    rule:
        name:
            ENTRY.name
        input:
            data=ancient(parts.data),
            model=ancient(MODEL),
        output:
            record=parts.output(ENTRY),
            also=[directory(path) for path in parts.beside(ENTRY)],
        log:
            parts.log(parts.output(ENTRY)),
        priority: parts.turn(ENTRY.name)
        conda:
            ENVIRONMENT
        group: TIMING
        threads: ALONE
        resources:
            mem_mb=ENTRY.memory_mb,
            gpu=GPUS,
            # What a cluster is asked for in place of `threads`.
            cpus_per_task=THREADS,
            # Replaces the profile's default, so the signal stands here again.
            slurm_extra="--exclusive --nice=1000 --signal=TERM@60",
            alone=1,
        params:
            ENTRY.version,
        shell:
            # Evaluated anew when a job runs, and ENTRY is the last of all by then.
            parts.command(locals().get("rule", ENTRY.name))

    workflow.get_rule(ENTRY.name).docstring = ENTRY.doc
