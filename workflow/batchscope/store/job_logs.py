"""Find the logs of jobs, by words in their paths or for jobs without a result."""

from collections.abc import Collection
from pathlib import Path

from batchscope.store import jobs, paths


def find_logs(results: Path, words: Collection[str]) -> list[Path]:
    """Return the logs with all words in their paths, the newest last.

    A word with `=` is a whole factor: `bs=16` is not `bs=160`.
    """
    folder = results.parent / "logs"
    logs = [log for log in folder.rglob("*.log") if _matches(log.relative_to(folder), words)]
    return sorted(logs, key=lambda log: log.stat().st_mtime)


def _matches(log: Path, words: Collection[str]) -> bool:
    names = log.with_suffix("").parts
    factors = {factor for name in names for factor in name.split("+")}
    return all(
        word in factors if "=" in word and "+" not in word else any(word in name for name in names)
        for word in words
    )


def missing_job_logs(table: jobs.JobTable) -> set[Path]:
    """Return the log paths of all jobs without a result."""
    missing = [state.job.path for state in table.by_record.values() if not state.is_complete]
    data = [dataset for dataset, is_complete in table.data_states().items() if not is_complete]
    missing += [paths.dataset_record(table.results, dataset) for dataset in data]
    return {paths.log_path(table.results, path) for path in missing}
