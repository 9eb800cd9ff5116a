"""The training steps that are timed: TensorFlow's loops and input pipelines.

Other frameworks have theirs in batchscope.frameworks.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from batchscope import frameworks
from batchscope.catalogue import framework_names, incompatible_factors
from batchscope.host import tensorflow_start
from batchscope.timing import TimingJob


@contextlib.contextmanager
def open_runner(job: TimingJob) -> Iterator[frameworks.Runner]:
    """Opens what runs a sweep's steps; TensorFlow, where it is that, must be started.

    Raises:
        UserError: If the data are missing or fewer than the largest batch, or the framework finds
            no GPU that is asked for.
    """
    factors = job.factors
    # Before a framework is started, which may leave this process fewer cores.
    threads = tensorflow_start.threads_of(factors["threads"])
    with contextlib.ExitStack() as stack:
        if factors["framework"] == framework_names.OWN:
            from batchscope.timing.steps import loops

            runner = stack.enter_context(loops.open_runner(job))
        else:
            runner = _of_framework(job, threads)
        runner.threads = threads
        yield runner


def _of_framework(job: TimingJob, threads: int) -> frameworks.Runner:
    factors, data = job.factors, job.data
    train = data.examples("train")
    largest = max(job.subject.batch_sizes)
    incompatible_factors.check_batch_size(factors, largest, len(train.labels))
    module = frameworks.start(factors["framework"], threads, factors["device"])
    given = factors["model"], data.look.classes, factors["optimizer"], train, factors["device"]
    return module.Runner(*given)
