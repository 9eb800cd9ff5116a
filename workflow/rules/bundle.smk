"""Bundles: short jobs of one kind, made as one, on a cluster or where they are very many."""


rule bundle:
    """Makes the jobs of a bundle, one after the other; each leaves its own files, whatever happens."""
    input:
        # Their content is pinned by the digests in the names of runs, whatever their age.
        data=ancient(STUDY.bundles.data),
        after=STUDY.bundles.after,
    output:
        # Declares nothing that its jobs write: Snakemake deletes what a failed job declared.
        parts.bundle_made(),
    log:
        "logs/bundle/{study}/{bundle}.log",
    conda:
        ENVIRONMENT
    threads: STUDY.bundles.each(lambda bundle: ALONE if bundle.alone else bundle.threads)
    resources:
        mem_mb=STUDY.bundles.memory_mb,
        runtime=240,
        gpu=STUDY.bundles.each(lambda bundle: bundle.gpus),
        # What a cluster is asked for in place of `threads`.
        cpus_per_task=STUDY.bundles.each(lambda bundle: bundle.threads),
        alone=STUDY.bundles.each(lambda bundle: int(bundle.alone)),
        # Replaces the profile's default, so the signal stands here again. What waits for a whole node
        # stands behind the others, which would wait with it.
        slurm_extra=STUDY.bundles.each(
            lambda bundle: f"{'--exclusive --nice=1000 ' * bundle.alone}--signal=TERM@60"
        ),
    # `exec`: as of a training, so that the signal before its time is up reaches the job alone.
    shell:
        "exec python workflow/run.py bundle --of-study {wildcards.study:q}"
        " --bundle {wildcards.bundle:q} > {log:q} 2>&1"
