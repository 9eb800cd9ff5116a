"""What the rule of bundles asks of the bundles of a study."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from batchscope import rule_parts
from batchscope.rule_parts import RESULTS
from batchscope.store import bundles, paths
from batchscope.store.bundles import Bundle


class Planned:
    """The bundles of all that is left of a study; a cluster's job reads its own from the disk."""

    def __init__(self, study: str, found: Iterable[Bundle] = ()) -> None:
        self._study = study
        self._folder = paths.bundles_folder(RESULTS, study)
        self._found = {bundle.name: bundle for bundle in found}

    def __len__(self) -> int:
        return len(self._found)

    @property
    def files(self) -> frozenset[str]:
        steps = (step for bundle in self._found.values() for step in bundle.steps)
        return frozenset(file for step in steps for file in step.files)

    @property
    def made(self) -> list[str]:
        return [*map(self._made, self._found)]

    @property
    def trained(self) -> list[str]:
        return [self._made(name) for name, bundle in self._found.items() if not bundle.alone]

    @property
    def jobs(self) -> int:
        return sum(len(bundle.records) for bundle in self._found.values())

    def _made(self, name: str) -> str:
        return rule_parts.bundle_made(self._study, name)

    def _of(self, wildcards: Any) -> Bundle:
        return self._found.get(wildcards.bundle) or bundles.read(self._folder, wildcards.bundle)[0]

    def data(self, wildcards: Any) -> list[str]:
        return [*map(rule_parts.dataset_record, self._of(wildcards).data)]

    def after(self, wildcards: Any) -> list[str]:
        return [*map(self._made, self._of(wildcards).after)]

    def each(self, value_of: Callable[[Bundle], Any]) -> Callable[[Any], Any]:
        return lambda wildcards: value_of(self._of(wildcards))

    def memory_mb(self, wildcards: Any, attempt: int) -> int:
        return rule_parts.enough(self._of(wildcards).memory_mb, attempt)

    def write(self) -> None:
        bundles.clear(self._folder)
        for bundle in self._found.values():
            bundle.write(self._folder)
