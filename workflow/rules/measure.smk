"""Measures of a finished run or of two: one file per run, measure and settings."""

for ENTRY in MEASURES.values():

    rule:
        """Measure a run, or a run and another one."""
        name:
            ENTRY.name
        input:
            # A run's record is written last: it stands for all files of the run.
            *inputs.records_of_runs(ENTRY),
            **inputs.snapshot_input(STUDY, ENTRY),
            **({"model": ancient(MODEL)} if ENTRY.data else {}),
        output:
            *inputs.result_files(ENTRY)[1:],
            record=inputs.record_path(ENTRY),
        log:
            inputs.log_file(ENTRY),
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
            inputs.step_command(locals().get("rule", ENTRY.name))
