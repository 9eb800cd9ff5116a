"""Measures of a finished run, or of two: one file per run, measure and settings."""


def measure_rule(entry):
    """Makes a rule; its command is evaluated again when a job starts, after the loop below."""

    rule:
        name:
            entry.name
        input:
            **{
                # One file for all runs of a model and seed: the last of them to end has touched it.
                name: ancient(path) if name == "initial" else path
                for name, path in jobs.measured(entry).items()
            },
            **({"early": jobs.early(entry)} if entry.at_epochs else {}),
            **(
                {
                    "data": ancient(lambda wildcards: jobs.dataset_record(wildcards.run)),
                    "model": ancient(RUN_MODEL),
                }
                if entry.data
                else {}
            ),
        output:
            record=f"{jobs.output(entry)}.json",
            also=[jobs.output(entry) + suffix for suffix in entry.also_writes],
        log:
            jobs.log(entry),
        conda:
            "../../envs/batchscope.yaml"
        resources:
            mem_mb=jobs.growing(entry.memory_mb),
            runtime=entry.minutes,
            gpu=MEASURE_GPUS if entry.data else 0,
        params:
            entry.version,
        shell:
            jobs.command(entry)

    workflow.get_rule(entry.name).docstring = entry.doc


for ENTRY in MEASURES.values():
    measure_rule(ENTRY)
