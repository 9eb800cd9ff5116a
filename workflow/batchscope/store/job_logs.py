"""The logs of a study and of a run's jobs."""

from collections.abc import Collection
from pathlib import Path

from batchscope.errors import UserError, unexpected
from batchscope.problems import show
from batchscope.store import job_table
from batchscope.study import plan


def names(study: plan.Study | None, results: Path) -> set[str]:
    """Return the names of a study, its runs, timings and data sets, as paths of logs have them."""
    if study is None:
        return set()
    jobs = [state.job for state in job_table.JobTable(study, results).every.values()]
    timed = (job.path.parent.name for job in jobs if job.noun == job_table.TIMING)
    return {study.folder_name, *study.datasets, *timed, *(run for job in jobs for run in job.runs)}


def find(results: Path, words: Collection[str], names: Collection[str] = ()) -> list[Path]:
    """Return the logs of jobs whose names have all of the words, the newest last.

    A word with `=` is a whole factor: `bs=16` is not `bs=160`.

    Args:
        names: Names of a study. Other logs are returned only if none has these.

    Raises:
        UserError: If there are none.
    """
    root = results.parent
    logs = [path for path in root.glob("logs/**/*.log") if _names(path.parts, words)]
    subjects = {path: _subjects(path.relative_to(root / "logs")) for path in logs}
    if not subjects and not words:
        raise UserError(f"{root / 'logs'}: holds no log yet; run snakemake first.")
    if not subjects:
        expected = "words of a run's name, such as bs=16 seed=0; results/runs has a folder for each"
        raise unexpected("name", show(" ".join(words)), expected)
    of_study = [path for path, own in subjects.items() if not own.isdisjoint(names)]
    return sorted(of_study or subjects, key=lambda path: path.stat().st_mtime)


def _subjects(log: Path) -> set[str]:
    """Return the names in the path of a log: a study, a run or a timing, without settings."""
    _, first, *more = log.parts
    return {first.removesuffix(".log"), *more[:-1]}


def last_line(path: Path) -> str:
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return next((line.strip() for line in reversed(lines) if line.strip()), "empty")


def _names(parts: Collection[str], words: Collection[str]) -> bool:
    """Whether one of the parts of a path is a name that has all of the words."""
    for part in parts:
        factors = part.removesuffix(".log").split("+")
        # Text without `=`, or several factors.
        if all(word in (factors if "=" in word and "+" not in word else part) for word in words):
            return True
    return False
