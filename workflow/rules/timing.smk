"""Timings: jobs that run exclusively; every published time comes from one."""

for ENTRY in TIMINGS.values():

    RECORD, *FOLDERS = inputs.result_files(ENTRY)

    rule:
        """Time a training's configuration, or a sweep."""
        name:
            ENTRY.name
        input:
            data=ancient(DATA),
            model=ancient(MODEL),
        output:
            *map(directory, FOLDERS),
            record=RECORD,
        log:
            inputs.log_file(ENTRY),
        priority: resources.timing_priority(ENTRY.name)
        group:
            TIMING
        conda:
            ENVIRONMENT
        threads: resources.EXCLUSIVE
        resources:
            mem_mb=ENTRY.memory_mb,
            gpu=GPUS,
            # A cluster gets this in place of `threads`.
            cpus_per_task=THREADS,
            # Replaces the profile's default, so it repeats the signal.
            slurm_extra="--exclusive --nice=1000 --signal=TERM@60",
            alone=1,
        params:
            ENTRY.version,
        shell:
            # Evaluated when a job runs, when ENTRY is the last of all.
            inputs.step_command(locals().get("rule", ENTRY.name))
