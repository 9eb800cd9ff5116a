"""Traces made by hand, and what holds of the summary of any."""

import pytest

from batchscope import private_interfaces
from batchscope.timing.instruments import trace

US = 1_000_000  # picoseconds


class Space:
    """An XSpace made by hand; times in microseconds."""

    def __init__(self):
        self.space = private_interfaces.profile(b"")

    def line(self, name, events, plane="/host:CPU", origin_ns=0):
        """Adds a thread; events are (name, start, stop) and maybe a map of stats."""
        found = next((known for known in self.space.planes if known.name == plane), None)
        found = found or self.space.planes.add(name=plane)
        line = found.lines.add(name=name, timestamp_ns=origin_ns)
        for label, start, stop, *stats in events:
            key = self._key(found.event_metadata, label)
            event = line.events.add(
                metadata_id=key, offset_ps=start * US, duration_ps=(stop - start) * US
            )
            for stat, value in (stats[0] if stats else {}).items():
                added = event.stats.add(metadata_id=self._key(found.stat_metadata, stat))
                if isinstance(value, int):
                    added.int64_value = value
                else:
                    added.ref_value = self._key(found.stat_metadata, value)
        return self

    @staticmethod
    def _key(metadata, name):
        for key, known in metadata.items():
            if known.name == name:
                return key
        key = len(metadata) + 1
        metadata[key].id = key
        metadata[key].name = name
        return key

    def summary(self):
        return trace.summarise(self.space)


def shares(summary):
    return tuple(summary[f"{name}_share"] for name in ("compute", "input", "host"))


def check_shares(summary):
    assert all(0 <= share <= 1 for share in shares(summary))
    assert sum(shares(summary)) == pytest.approx(1)
    seconds = sum(summary[f"{name}_seconds"] for name in ("compute", "input", "host"))
    assert seconds == pytest.approx(summary["seconds"])
    assert 0 <= summary["executor_seconds"] <= summary["host_seconds"] + 1e-12
