"""Measures of a finished run or of two: one file per run, measure and settings."""

for ENTRY in MEASURES.values():

    rule:
        """Measure a run, or a run and another one."""
        name:
            ENTRY.name
        input:
            # A run's record is written last: it stands for all files of the run.
            *inputs.measured_records(ENTRY),
            **inputs.snapshots(STUDY, ENTRY),
            **({"model": ancient(MODEL)} if ENTRY.data else {}),
        output:
            *inputs.files_of(ENTRY)[1:],
            record=inputs.record_of(ENTRY),
        log:
            inputs.log_of(ENTRY),
        group:
            RUNS
        conda:
            ENVIRONMENT
        resources:
            mem_mb=ENTRY.memory_mb,
            gpu=MEASURE_GPUS if ENTRY.data else 0,
        params:
            ENTRY.version,
        shell:
            # Evaluated when a job runs, when ENTRY is the last of all.
            inputs.command_of(locals().get("rule", ENTRY.name))
