"""What a study is of, in one line: model, data, machine, runs and time; and what it took."""

from __future__ import annotations

from collections import Counter
from typing import Any

from batchscope import wording
from batchscope.catalogue import own_columns, run_names
from batchscope.host import absence
from batchscope.report import runs_table
from batchscope.report.content import Inputs
from batchscope.report.text import is_number
from batchscope.store import taken
from batchscope.store.records import FINISHED
from batchscope.store.status import waiting

_MOST_NAMED = 3


def scope(inputs: Inputs) -> str:
    """Returns `small_cnn on digits; Some CPU; 144 training runs, 3 min of training`."""
    models, data = _named(inputs, "model"), _named(inputs, "dataset")
    parts = [f"{models} on {data}" if models and data else models or data, _machine(inputs)]
    parts.append(_amount(inputs))
    return f"{'; '.join(filter(None, parts))}."


def _named(inputs: Inputs, factor: str) -> str:
    found = {row[factor] for row in inputs.rows if row.get(factor)}
    for each in inputs.experiments.values():
        for sweep in each.experiment.times.sweeps:
            found.add(run_names.split_token(str(sweep.factors[factor]))[0])
    noun = "model" if factor == "model" else "data set"
    names = sorted(found)
    return wording.listed(names) if len(names) <= _MOST_NAMED else wording.count(len(names), noun)


def _machine(inputs: Inputs) -> str:
    """Returns the processors of the machines that trained or timed, GPUs first."""
    made = inputs.records
    every = [*made.runs.values(), *made.other_runs, *made.timings]
    machines = [found for record in every if isinstance(found := record.get("machine"), dict)]
    names = dict.fromkeys(_processor(machine) for machine in machines)
    return wording.listed(list(filter(None, names))[:_MOST_NAMED])


def _processor(machine: dict[str, Any]) -> str:
    gpus = machine.get("gpu")
    gpus = [gpus] if isinstance(gpus, str) else gpus or []
    cores = machine.get("usable_cores") or machine.get("cores")
    cpu = " ".join(str(machine.get("cpu") or "").split())
    processor = f"{cpu} ({wording.count(cores, 'core')})" if cpu and isinstance(cores, int) else cpu
    return ", ".join(filter(None, [*dict.fromkeys(map(str, filter(None, gpus))), processor]))


def _amount(inputs: Inputs) -> str:
    """Returns how many runs or timing jobs there are, and how long the trainings took in all."""
    runs = runs_table.distinct(inputs.rows)
    if not runs:
        return wording.count(len(inputs.records.timings), "timing job")
    text = wording.count(len(runs), "training run")
    others = Counter(status for row in runs.values() if (status := row["status"]) != FINISHED)
    words = [absence.counted(status, count) for status, count in others.items()]
    text += f" ({', '.join(words)})" if words else ""
    if all(row.get("machine") == own_columns.ELSEWHERE for row in runs.values()):
        return text
    taken = [record.get("contended_seconds") for record in inputs.records.runs.values()]
    seconds = sum(each for each in taken if is_number(each))
    return f"{text}, {wording.duration(seconds)} of training in all" if seconds else text


def took(found: taken.Taken) -> str:
    """Returns `It took 1.2 core-hours of training ...`; empty where nothing is known of it."""
    alone = found.timings * found.cores
    kinds = {
        "training": found.training,
        "measures": found.measures,
        f"timings, {wording.duration(found.timings)} alone on the machine": alone,
    }
    spent = [f"{_hours(each)} core-hours of {what}" for what, each in kinds.items() if each]
    parts = [f"It took {wording.listed(spent)}"] if spent else []
    parts += [f"{_hours(found.gpu)} GPU hours"] if found.gpu else []
    parts += [f"its runs hold {wording.size(found.run_bytes)}"] if found.run_bytes else []
    if parts and found.unknown:
        parts.append(f"what {waiting(found.unknown)} took was not noted")
    return wording.capital(f"{'; '.join(parts)}.") if parts else ""


def _hours(seconds: float) -> str:
    return wording.number(seconds / 3600, 2)
