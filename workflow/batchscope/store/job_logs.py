"""The logs of jobs."""

from collections.abc import Collection
from pathlib import Path

from batchscope.store import paths, states
from batchscope.study.plan import Study


def find(results: Path, words: Collection[str]) -> list[Path]:
    """Return the logs whose paths have all of the words, the newest last.

    A word with `=` is a whole factor: `bs=16` is not `bs=160`.
    """
    logs = [log for log in results.parent.glob("logs/**/*.log") if _matches(log, words)]
    return sorted(logs, key=lambda log: log.stat().st_mtime)


def _matches(log: Path, words: Collection[str]) -> bool:
    names = log.with_suffix("").parts
    factors = {factor for name in names for factor in name.split("+")}
    return all(
        word in factors if "=" in word and "+" not in word else any(word in name for name in names)
        for word in words
    )


def of_missing(study: Study, results: Path) -> set[Path]:
    """Return the paths of the logs of all jobs whose results are missing."""
    table = states.JobTable(study, results)
    made = [state.job.path for state in table.every.values() if not state.made]
    made += [
        paths.dataset_record(results, dataset)
        for dataset, is_complete in table.data().items()
        if not is_complete
    ]
    return {paths.log_path(results, path) for path in made}
