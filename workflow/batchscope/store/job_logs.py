"""The logs of a run's jobs, by words of its name; on a cluster those of its bundle too."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from batchscope.errors import unexpected
from batchscope.problems import show
from batchscope.store import paths

CLUSTER = Path(".snakemake", "slurm_logs", "rule_bundle")  # a folder for each, of its wildcards


def find(results: Path, words: Collection[str]) -> list[Path]:
    """Returns the logs of the runs and timings whose names have all of the words, the newest last.

    A word with `=` is a whole factor: `bs=16` is not `bs=160`.

    Raises:
        UserError: If there are none.
    """
    root = results.parent
    found = [path for path in root.glob("logs/**/*.log") if _names(path.parts, words)]
    for path in results.glob(f"bundles/*/*/{paths.BUNDLED}"):
        text = path.read_text(encoding="utf-8").replace('"', "/").split("/")
        if any(_names((part,), words) for part in {*text}):
            bundle, study = path.parent.name, path.parent.parent.name
            found += [root / "logs" / "bundle" / study / f"{bundle}.log"]
            found += (root / CLUSTER).glob(f"*{bundle}*/*.log")
    found = [path for path in found if path.exists()]
    if not found:
        expected = "words of a run's name, such as bs=16 seed=0; results/runs has a folder for each"
        raise unexpected("name", show(" ".join(words)), expected)
    return sorted(found, key=lambda path: path.stat().st_mtime)


def last_line(path: Path) -> str:
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return next((line.strip() for line in reversed(lines) if line.strip()), "empty")


def _names(parts: Collection[str], words: Collection[str]) -> bool:
    """Whether one of the parts of a path is a name that has all of the words."""
    for part in parts:
        factors = part.removesuffix(".log").split("+")
        if all(word in (part if _several(word) else factors) for word in words):
            return True
    return False


def _several(word: str) -> bool:
    """Whether a word is no single factor: part of a value, or a whole name."""
    return "=" not in word or "+" in word
