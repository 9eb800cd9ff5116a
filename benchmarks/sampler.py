"""What it costs a training to be sampled for its utilisation.

    python benchmarks/sampler.py [--threads 1 2] [--interval 0.1] [--blocks 41] [--gpu 0]

One process, `chang_vgg` with two classes on random bytes, plain SGD. The same steps of the same
loop run with the sampler and without it, turn by turn, in an order shuffled anew; starting and
ending the sampler is part of its block. Printed: the throughput with the sampler over that without
it, as the median over the blocks with a 95 % t-interval of the mean log ratio, and the ratio of
two blocks without it: the noise floor. Both by the clock and by CPU time, which other processes
disturb less but which misses waiting. Also the CPU time that the sampling took by its own account.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "workflow"))

from update_norms import block

from batchscope.host import tensorflow_start
from training import seconds

BLOCK_SECONDS = 0.5


class Contender:
    """Runs blocks, with or without the sampler, and keeps what they took."""

    def __init__(self, work: Callable[[], None], sampler=None) -> None:
        self.work, self.sampler = work, sampler
        self.clock: list[float] = []
        self.cpu: list[float] = []
        self.own: list[float] = []

    def run(self) -> None:
        clock, cpu = time.perf_counter(), time.process_time()
        if self.sampler is None:
            self.work()
        else:
            with self.sampler, self.sampler.phase("work"):
                self.work()
            self.own.append(self.sampler.own_seconds)
        self.clock.append(time.perf_counter() - clock)
        self.cpu.append(time.process_time() - cpu)


def ratio(theirs: list[float], own: list[float]) -> str:
    import numpy as np

    from batchscope.analysis import intervals

    logs = np.log(np.asarray(theirs) / np.asarray(own))
    interval = intervals.t_interval(logs)
    low, high = np.exp([interval.low, interval.high])
    return f"{np.exp(np.median(logs)):.4f} [{low:.4f}, {high:.4f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--interval", type=float, default=0.1)
    parser.add_argument("--blocks", type=int, default=41)
    parser.add_argument("--gpu", type=int, help="train on a GPU and sample the one of this index")
    arguments = parser.parse_args()
    if len(arguments.threads) > 1:
        print("| threads | clock, with / without | clock, without / without ", end="")
        print("| CPU, with / without | CPU, without / without | sampling's own share of a core |")
        print("|---|---|---|---|---|---|", flush=True)
        # TensorFlow's pools are fixed once it runs, so each number of threads has its process.
        for threads in arguments.threads:
            words = ["--interval", str(arguments.interval), "--blocks", str(arguments.blocks)]
            words += [] if arguments.gpu is None else ["--gpu", str(arguments.gpu)]
            command = [sys.executable, __file__, "--threads", str(threads), *words]
            subprocess.run(command, check=True)
        return
    threads = arguments.threads[0]
    tensorflow_start.start(threads, "cpu" if arguments.gpu is None else "gpu")
    import numpy as np

    from batchscope.timing.instruments.sampler import Sampler

    shape, batch_size = (64, 64, 3), 32
    probe = block(shape, batch_size, 4, norms=False)
    probe()
    steps = max(4, round(4 * BLOCK_SECONDS / seconds(probe)))
    work = block(shape, batch_size, steps, norms=False)
    work()  # tracing, memory pools
    without, again = Contender(work), Contender(work)
    sampled = Contender(work, Sampler(arguments.interval, threads, arguments.gpu))
    generator = np.random.default_rng(0)
    for _ in range(arguments.blocks):
        for index in generator.permutation(3):
            (without, again, sampled)[index].run()
    print(
        f"| {threads} "
        f"| {ratio(without.clock, sampled.clock)} | {ratio(without.clock, again.clock)} "
        f"| {ratio(without.cpu, sampled.cpu)} | {ratio(without.cpu, again.cpu)} "
        f"| {sum(sampled.own) / sum(sampled.clock):.2%} |",
        flush=True,
    )


if __name__ == "__main__":
    main()
