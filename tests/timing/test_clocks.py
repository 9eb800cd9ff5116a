"""What others took of the machine."""

from __future__ import annotations

import subprocess
import sys
import types

import psutil
import pytest

from batchscope.timing.instruments import clocks
from batchscope.timing.instruments.clocks import Clock


def test_foreign_cores_are_what_this_process_did_not_use():
    before = Clock(100.0, 7.0, 5000.0)
    assert clocks.foreign_cores(before, Clock(102.0, 9.0, 5005.0)) == pytest.approx(1.5)
    # A tick of the machine's clock is not yet counted: no negative cores.
    assert clocks.foreign_cores(before, Clock(102.0, 9.0, 5001.99)) == 0
    assert clocks.foreign_cores(before, before) == 0


def test_busy_time_of_the_machine_counts_guests_once_and_no_idling(monkeypatch):
    times = types.SimpleNamespace(
        _asdict=lambda: {
            **dict(user=10, nice=5, system=3, irq=1, softirq=1, steal=2),
            **dict(idle=1000, iowait=100, guest=4, guest_nice=2),
        }
    )
    monkeypatch.setattr(psutil, "cpu_times", lambda: times)
    assert clocks.cpu_times().machine == 22


@pytest.mark.slow
def test_another_process_is_foreign():
    before = clocks.cpu_times()
    code = "import time\nwhile time.process_time() < 0.6: pass"
    subprocess.run([sys.executable, "-S", "-c", code], check=True)
    after = clocks.cpu_times()
    assert after.process - before.process < 0.2
    assert clocks.foreign_cores(before, after) * (after.seconds - before.seconds) > 0.5
