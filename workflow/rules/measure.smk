"""Measures of a finished run, or of two: one file per run, measure and settings."""

for ENTRY in MEASURES.values():

    rule:
        name:
            ENTRY.name
        input:
            **{
                # One file for all runs of a model and seed: the last of them to end has touched it.
                name: ancient(path) if name == "initial" else path
                for name, path in parts.measured(ENTRY).items()
            },
            **({"early": parts.early(ENTRY)} if ENTRY.at_epochs else {}),
            **({"data": ancient(parts.data), "model": ancient(MODEL)} if ENTRY.data else {}),
        output:
            record=parts.output(ENTRY),
            also=parts.beside(ENTRY),
        log:
            parts.log(parts.output(ENTRY)),
        conda:
            ENVIRONMENT
        group: RUNS
        resources:
            mem_mb=ENTRY.memory_mb,
            gpu=MEASURE_GPUS if ENTRY.data else 0,
        params:
            ENTRY.version,
        shell:
            # Evaluated anew when a job runs, and ENTRY is the last of all by then.
            parts.command(locals().get("rule", ENTRY.name))

    workflow.get_rule(ENTRY.name).docstring = ENTRY.doc
