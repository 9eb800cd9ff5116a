"""What the rule of bundles asks of the bundles of a study."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from batchscope import rule_parts
from batchscope.rule_parts import RESULTS
from batchscope.store import bundles
from batchscope.store.bundles import Bundle


class Planned:
    """The bundles of all that is left of a study; a cluster's job reads its own from the disk."""

    def __init__(self, found: Iterable[Bundle] = ()) -> None:
        self._found = {bundle.name: bundle for bundle in found}

    def __len__(self) -> int:
        """How many there are."""
        return len(self._found)

    @property
    def names(self) -> frozenset[str]:
        """Their names: of all that is left."""
        return frozenset(self._found)

    @property
    def made(self) -> list[str]:
        """What they leave."""
        return [*map(rule_parts.bundle_made, self._found)]

    @property
    def trained(self) -> list[str]:
        """What those leave that have not the machine to themselves."""
        alone = (name for name, bundle in self._found.items() if not bundle.alone)
        return [*map(rule_parts.bundle_made, alone)]

    @property
    def jobs(self) -> int:
        """How many jobs they are of."""
        return sum(len(bundle.records) for bundle in self._found.values())

    def _of(self, wildcards: Any) -> Bundle:
        return self._found.get(wildcards.bundle) or bundles.read(RESULTS, wildcards.bundle)

    def data(self, wildcards: Any) -> list[str]:
        """Records of the data sets that a bundle reads."""
        return [*map(rule_parts.dataset_record, self._of(wildcards).data)]

    def after(self, wildcards: Any) -> list[str]:
        """What bundles leave that come before this one."""
        return [*map(rule_parts.bundle_made, self._of(wildcards).after)]

    def each(self, value_of: Callable[[Bundle], Any]) -> Callable[[Any], Any]:
        """Returns, as a function of the wildcards, what a bundle says of itself."""
        return lambda wildcards: value_of(self._of(wildcards))

    def memory_mb(self, wildcards: Any, attempt: int) -> int:
        """The memory of an attempt at a bundle, MB."""
        return rule_parts.enough(self._of(wildcards).memory_mb, attempt)

    def start(self) -> None:
        """Writes the bundles for their jobs, and deletes records that they are to make again.

        As Snakemake does with what a job of its own is to write. Weights that a training kept stay.
        """
        bundles.clear(RESULTS)
        for bundle in self._found.values():
            bundle.write(RESULTS)
            for record in bundle.records:
                Path(record).unlink(missing_ok=True)
