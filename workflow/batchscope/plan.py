"""From a configuration to the runs of a study: every check of meaning, no heavy import.

Precedence of a run's factors: defaults, set, cases, vary, seed. All problems are found at
once; what depends on a part that is broken is not reported beside it.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import itertools
import math
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from batchscope import (
    definitions,
    environments,
    measure_settings,
    names,
    pairs,
    parameters,
    published,
    snapshots,
    sweeps,
    values,
)
from batchscope.errors import ConfigError
from batchscope.parameters import Parameter
from batchscope.problems import Place, Problem, merged, missing, received, show, unknown, within

BUILT_IN_MODELS = (
    "benchmark_cnn",
    "campbell_cnn",
    "chang_vgg",
    "keskar_f1",
    "keskar_f1_plain",
    "lheureux_cnn",
    "small_cnn",
    "tutorial_cnn",
)
# The figures that `published` may name; batchscope.figures, which draws them, is above this.
FIGURES: dict[str, tuple[str, ...]] = {  # figure -> measures that it needs; a | b: either
    "accuracy": ("evaluate",),
    "accuracy_by_epochs": ("evaluate",),
    "batch_size_limits": ("evaluate",),
    "best_learning_rate": ("evaluate",),
    "best_losses": (),
    "displacement": ("displacement",),
    "epoch_distance": ("weight_distance",),
    "frameworks": ("utilisation", "throughput"),
    "generalisation_gap": ("evaluate",),
    "gradient_alignment": ("gradient_alignment",),
    "hessian": ("hessian",),
    "landscape": ("landscape",),
    "landscape_lines": ("landscape",),
    "learning_rate": (),
    "line": ("line",),
    "loss_curves": (),
    "max_batch_size": ("max_batch_size",),
    "profile": ("profile",),
    "sam_sharpness": ("sam_sharpness",),
    "sharpness": ("sharpness",),
    "step_time": ("throughput",),
    "throughput": ("throughput",),
    "time": ("time_epoch",),
    "training_time": ("time_epoch|throughput",),
    "update_norms": ("displacement",),
    "utilisation": ("utilisation",),
    "utilisation_over_time": ("utilisation",),
    "weight_distance": ("weight_distance",),
    "weight_distance_by_layer": ("weight_distance",),
}
MARGIN_FIGURES = ("batch_size_limits",)  # which need margins besides
# Outcomes that may have a margin, all of which `evaluate` measures.
MARGIN_OUTCOMES = tuple(
    f"{split}_{what}" for split in ("test", "validation", "train") for what in ("accuracy", "loss")
)
# What the frameworks beside TensorFlow do; batchscope.frameworks, which does it, is above this.
FRAMEWORK_MODELS = ("campbell_cnn", "lheureux_cnn")
FRAMEWORK_OPTIMIZERS = ("sgd", "adam")
FRAMEWORK_TIMINGS = ("throughput", "utilisation")
EPOCH_FIGURES = ("accuracy_by_epochs", "training_time")  # which need at_epochs besides
MAX_RUNS = 1000
_LONGEST_PAIR = 210  # characters of both names: with settings, below a file name's 255
EXPECTED_SEED = "a seed given by the experiment's own key 'seeds'"
EXPECTED_EPOCH = "an epoch given by the experiment's own key 'at_epochs'"

_CORE = tuple(name for name, factor in names.FACTORS.items() if factor.core and name != "seed")
_FACTORS = tuple(name for name in names.FACTORS if name != "seed")
_SEED_COUNT = Parameter("seeds", "seeds", "int", None, "Number of seeds.", minimum=1, maximum=2**32)
_RUN_COUNT = Parameter("max_runs", "max_runs", "int", None, "Most runs.", minimum=1)
_MARGIN = Parameter("margins", "margins", "float", None, "Largest loss.", above=0)
_EPOCH = Parameter("at_epochs", "at", "int", None, "Number of epochs.", minimum=1)


@dataclass(frozen=True)
class Run:
    """One training run.

    Attributes:
        name: Its name in paths.
        factors: Every factor by full name, as the name spells it; data set and model are
            tokens.
    """

    name: str
    factors: dict[str, Any]


@dataclass(frozen=True)
class Experiment:
    """One experiment of a study.

    Attributes:
        name: Its name in paths.
        title: Heading; the name where none is given.
        question: The question that it answers, or an empty text.
        set: Factor -> value of every run, over the defaults.
        cases: Factors that move together; one empty map where there are none.
        vary: Factor -> values.
        seeds: Seeds of every combination.
        runs: Names of its runs, in order: cases, then vary as written, then seeds.
        measures: Measure -> every setting, by full name.
        datasets: Tokens of its data sets.
        models: Tokens of its models.
        pairs: Measure of two runs -> names of both, for each pair.
        figures: Its figures, in order; empty for all that its measures allow.
        published: What a document says, by figure.
        numbers: The document's own numbers, by figure, for those that show some.
        timings: Timing -> every setting, by full name; such an experiment has no runs.
        sweeps: What is timed: a sweep over batch sizes for all else that is varied.
        at_epochs: Numbers of epochs that every training serves, in rising order.
        margins: Outcome -> largest loss of it that counts as negligible.
        beside: Experiments of times whose limits are drawn beside this one's.
    """

    name: str
    title: str
    question: str
    set: dict[str, Any]
    cases: tuple[dict[str, Any], ...]
    vary: dict[str, tuple[Any, ...]]
    seeds: tuple[int, ...]
    runs: tuple[str, ...]
    measures: dict[str, dict[str, Any]]
    datasets: tuple[str, ...]
    models: tuple[str, ...]
    pairs: dict[str, tuple[pairs.Pair, ...]] = field(default_factory=dict)
    figures: tuple[str, ...] = ()
    published: dict[str, dict[str, str]] = field(default_factory=dict)
    numbers: dict[str, tuple[published.Series, ...]] = field(default_factory=dict)
    timings: dict[str, dict[str, Any]] = field(default_factory=dict)
    sweeps: tuple[sweeps.Sweep, ...] = ()
    at_epochs: tuple[int, ...] = ()
    margins: dict[str, float] = field(default_factory=dict)
    beside: tuple[str, ...] = ()


@dataclass(frozen=True)
class Study:
    """A planned study.

    Attributes:
        name: Its name.
        title: Heading; the name where none is given.
        machine: Name of the machine that times belong to.
        reduced: Whether this is the reduced form.
        folder_name: Its folder below `results/studies`.
        datasets: Token -> resolved definition of every data set that a run uses.
        models: Token -> the user's model file, or None for a built-in model.
        experiments: By name, in the order of the file.
        runs: Every distinct run by name.
        machines: Other machine -> the folder of its results, and what it calls itself there.
        warnings: What does not stop a study but may surprise.
    """

    name: str
    title: str
    machine: str
    reduced: bool
    folder_name: str
    datasets: dict[str, dict[str, Any]]
    models: dict[str, str | None]
    experiments: dict[str, Experiment]
    runs: dict[str, Run]
    warnings: tuple[str, ...] = field(default=())
    machines: dict[str, tuple[str, str]] = field(default_factory=dict)


def make(config: dict[str, Any], scale: str = "full") -> Study:
    """Returns the study of a configuration that fits the schema.

    Args:
        config: As `config.load` returns it.
        scale: `full`, or `reduced` for the smaller form.

    Raises:
        ConfigError: With every problem of meaning.
    """
    study, problems = draft(config, scale)
    if study is None:
        raise ConfigError([problem.line for problem in problems])
    return study


def draft(
    config: dict[str, Any], scale: str = "full", found: Iterable[Problem] = ()
) -> tuple[Study | None, list[Problem]]:
    """Returns the study, or None and every problem of meaning.

    Args:
        config: A configuration, which may be broken where `found` says so.
        scale: `full` or `reduced`.
        found: Problems of structure; nothing at or below their places is looked at.
    """
    planner = _Planner(config, scale, [problem.place for problem in found])
    study = planner.study()
    problems = merged(planner.problems)
    return (None if problems or planner.found else study), problems


def reduced_definitions(config: dict[str, Any]) -> Iterator[tuple[Place, dict[str, Any]]]:
    """Yields place and whole definition of each data set that `reduced` changes."""
    bases = _map(config.get("datasets"))
    for name, keys in _map(_map(config.get("reduced")).get("datasets")).items():
        if isinstance(bases.get(name), dict) and isinstance(keys, dict):
            yield ("reduced", "datasets", name), {**bases[name], **keys}


def model_token(name: str, path: str) -> str:
    """Returns the token of a user's model: its name and a digest of its file's bytes."""
    sha256 = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    return names.token(name, names.digest(sha256))


def gpu_present() -> bool:
    """Whether this machine shows an NVIDIA GPU, without asking a framework."""
    return Path("/proc/driver/nvidia/version").exists() or shutil.which("nvidia-smi") is not None


def _map(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _reduce(config: dict[str, Any]) -> tuple[dict[str, Any], list[Place]]:
    """Returns the reduced configuration, and the places whose values `reduced` gave."""
    reduced, replaced = _map(config.get("reduced")), []
    config = {**config, "defaults": {**_map(config.get("defaults"))}}
    for name, value in _map(reduced.get("defaults")).items():
        config["defaults"][name] = value
        replaced.append(("defaults", name))
    for section in ("datasets", "experiments"):
        config[section] = dict(_map(config.get(section)))
        for name, keys in _map(reduced.get(section)).items():
            if not isinstance(config[section].get(name), dict):
                continue
            body = {**config[section][name], **_map(keys)}
            if section == "experiments":  # a key without a value takes that key away
                body = {key: value for key, value in body.items() if value is not None}
            config[section][name] = body
            replaced.extend((section, name, key) for key in _map(keys))
    return config, replaced


class _Broken(Exception):
    """A value whose problem is already reported."""


@dataclass(frozen=True)
class _Kind:
    """What an experiment is made of: trainings, or times.

    Attributes:
        factors: Factors that it may have.
        core: Those that it must be given.
        why_not: What is said of any other factor.
    """

    factors: dict[str, Parameter]
    core: tuple[str, ...]
    why_not: str


_TRAINING = _Kind(
    names.FACTORS,
    _CORE,
    "received in an experiment that trains; it is expected beside `timing` alone: a training is "
    "always the loop in the graph.",
)
_TIMING = _Kind(
    sweeps.FACTORS,
    sweeps.CORE,
    "received in an experiment of times, which do not depend on it; one of "
    f"{', '.join(sweeps.FACTORS)} is expected.",
)
# Of defaults an experiment takes what it may have.
_DEFAULTS = _Kind({**names.FACTORS, **sweeps.FACTORS}, (), "")


@dataclass
class _Grid:
    """The factors of one experiment, resolved."""

    place: Place
    defaults: dict[str, Any]
    set: dict[str, Any]
    cases: list[dict[str, Any]]
    vary: dict[str, tuple[Any, ...]]
    seeds: tuple[int, ...] | range
    kind: _Kind

    @property
    def complete(self) -> bool:
        """Whether every case has every core factor; a broken value is not here."""
        given = {*self.defaults, *self.set, *self.vary}
        return all(given | set(case) >= set(self.kind.core) for case in self.cases)

    @property
    def size(self) -> int:
        return math.prod(
            [len(self.cases), len(self.seeds), *(len(items) for items in self.vary.values())]
        )

    def combinations(self) -> Iterator[tuple[int, dict[str, Any], Callable[[str], Place]]]:
        """Yields the case, factors without seed, and the function from factor to place."""
        births = {name: factor.birth for name, factor in self.kind.factors.items()}
        defaults = {name: value for name, value in self.defaults.items() if name in births}
        choices = [list(enumerate(items)) for items in self.vary.values()]
        varied = tuple(self.vary)
        for index, case in enumerate(self.cases):
            base = {**births, **defaults, **self.set, **case}
            for chosen in itertools.product(*choices):
                picked = {name: item[1] for name, item in zip(varied, chosen, strict=True)}
                where = {name: item[0] for name, item in zip(varied, chosen, strict=True)}
                yield index, {**base, **picked}, self._finder(index, case, where)

    def _finder(
        self, index: int, case: dict[str, Any], where: dict[str, int]
    ) -> Callable[[str], Place]:
        def find(factor: str) -> Place:
            if factor in where:
                return (*self.place, "vary", factor, where[factor])
            if factor in case:
                return (*self.place, "cases", index, factor)
            if factor in self.set:
                return (*self.place, "set", factor)
            return ("defaults", factor)

        return find


def _used(tokens: Iterable[tuple[str, ...]], known: dict[str, Any]) -> dict[str, Any]:
    """Returns what stands behind tokens, each once."""
    by_token = dict(entry for entry in known.values() if entry is not None)
    return {token: by_token[token] for token in dict.fromkeys(itertools.chain(*tokens))}


class _Planner:
    """One pass over a configuration; collects problems, warnings and runs."""

    def __init__(self, config: dict[str, Any], scale: str, found: list[Place]) -> None:
        self.problems: list[Problem] = []
        self.warnings: dict[str, None] = {}
        self.found = found
        self.scale = scale
        self.replaced: list[Place] = []
        self._check_reduced(config)
        if scale == "reduced":
            config, self.replaced = _reduce(config)
        self.config = config
        self.runs: dict[str, Run] = {}
        self.datasets: dict[str, tuple[str, dict[str, Any]] | None] = {}
        self.models: dict[str, tuple[str, str | None] | None] = {}
        self.sizes: dict[str, int | None] = {}  # training images by data set
        self.sources: dict[str, str] = {}

    # Problems.

    def _origin(self, place: Place) -> Place:
        """The place in the file: what `reduced` replaced stands there."""
        return ("reduced", *place) if within(place, self.replaced) else place

    def report(self, problem: Problem) -> None:
        place = self._origin(problem.place)
        if not within(place, self.found):
            self.problems.append(Problem(place, problem.text))

    def _broken(self, *roots: Place) -> bool:
        """Whether a problem lies at or below a root, in the file or in `reduced`."""
        places = itertools.chain(self.found, (problem.place for problem in self.problems))
        wide = [*roots, *(("reduced", *root) for root in roots)]
        return any(within(place, wide) for place in places)

    # Sections.

    def study(self) -> Study | None:
        self._read_datasets()
        self._read_models()
        defaults = self._scalars(("defaults",), self.config.get("defaults"), _DEFAULTS)
        experiments = {}
        for name, body in _map(self.config.get("experiments")).items():
            if isinstance(body, dict):
                plan_one = self._timing_experiment if "timing" in body else self._experiment
                experiments[name] = plan_one(name, body, defaults)
        self._check_total()
        self._check_machines()
        if self.problems or self.found:
            return None
        name = self.config["study"]
        reduced = self.scale == "reduced"
        return Study(
            name=name,
            title=self.config.get("title", name),
            machine=self.config.get("machine", "local"),
            reduced=reduced,
            folder_name=f"{name}-reduced" if reduced else name,
            datasets=_used([item.datasets for item in experiments.values()], self.datasets),
            models=_used([item.models for item in experiments.values()], self.models),
            experiments=experiments,
            runs=self.runs,
            warnings=tuple(self.warnings),
            machines={
                name: (os.path.normpath(body["results"]), body.get("machine", "local"))
                for name, body in _map(self.config.get("machines")).items()
            },
        )

    def _check_reduced(self, config: dict[str, Any]) -> None:
        if self.scale == "reduced" and "reduced" not in config:
            expected = "a section with what scale=reduced replaces"
            self.report(missing(("reduced",), expected))
        reduced = _map(config.get("reduced"))
        for section, noun in (("datasets", "data set"), ("experiments", "experiment")):
            known = _map(config.get(section))
            for name in _map(reduced.get(section)):
                if name not in known:
                    self.report(unknown(("reduced", section, name), noun, known))

    def _read_datasets(self) -> None:
        given = {**definitions.BUILT_IN, **_map(self.config.get("datasets"))}
        for name, raw in given.items():
            place = ("datasets", name)
            self.datasets[name] = None
            if self._broken(place):
                continue
            definition = definitions.resolve(raw)
            for problem in definitions.problems(place, definition):
                self.report(problem)
            if not self._broken(place):
                token = definitions.token(name, definition)
                self.datasets[name] = (token, definition)
                self.sizes[token] = definitions.training_size(definition)
                self.sources[token] = definition["source"]

    def _read_models(self) -> None:
        self.models.update({name: (name, None) for name in BUILT_IN_MODELS})
        for name, path in _map(self.config.get("models")).items():
            place = ("models", name)
            if name in BUILT_IN_MODELS and path != name:
                text = "a name of its own is expected: this one is a built-in model's."
                self.report(Problem(place, f"received {show(path)}; {text}"))
                continue
            self.models[name] = None
            if path in BUILT_IN_MODELS:
                self.models[name] = (path, None)
            elif not self._broken(place) and self._model_file(place, path):
                self.models[name] = (model_token(name, path), os.path.normpath(path))

    def _model_file(self, place: Place, path: str) -> bool:
        if not path.endswith(".py") or not Path(path).is_file():
            expected = "an existing Python file or a built-in model"
            self.report(received(place, path, expected, BUILT_IN_MODELS))
            return False
        try:
            tree = ast.parse(Path(path).read_bytes(), path)
        except (SyntaxError, ValueError) as error:
            at = f" (line {error.lineno}: {error.msg})" if isinstance(error, SyntaxError) else ""
            self.report(received(place, path, f"a file of valid Python{at}"))
            return False
        if not _binds_build(tree):
            expected = "a file that defines build(input_shape, classes)"
            self.report(received(place, path, expected))
            return False
        return True

    # Factors.

    def _scalars(self, place: Place, mapping: Any, kind: _Kind) -> dict[str, Any]:
        """Returns the sound factors of a map from factors to values."""
        result = {}
        for name, raw in _map(mapping).items():
            if self._known_factor((*place, name), kind):
                try:
                    result[name] = self._factor(name, (*place, name), raw, kind)
                except _Broken:
                    continue
        return result

    def _lists(self, place: Place, mapping: Any, kind: _Kind) -> dict[str, tuple[Any, ...]]:
        result = {}
        for name, raw in _map(mapping).items():
            at = (*place, name)
            if not self._known_factor(at, kind) or within(self._origin(at), self.found):
                continue
            if not isinstance(raw, list) or not raw:
                expected = "a list of at least one value"
                self.report(received(at, raw, expected))
                continue
            read = functools.partial(self._factor, name, kind=kind)
            result[name] = self._distinct(at, raw, read)
        return result

    def _distinct(
        self, place: Place, raw: list[Any], read: Callable[[Place, Any], Any]
    ) -> tuple[Any, ...]:
        seen: dict[Any, int] = {}
        for index, item in enumerate(raw):
            try:
                value = read((*place, index), item)
            except _Broken:
                continue
            if value in seen:
                text = f"received {show(item)} again (as in [{seen[value]}]); "
                self.report(Problem((*place, index), text + "every value once is expected."))
            seen.setdefault(value, index)
        return tuple(seen)

    def _known_factor(self, place: Place, kind: _Kind) -> bool:
        name = place[-1]
        if name == "seed":
            text = f"{EXPECTED_SEED} is expected."
            self.report(Problem(place, f"received a seed; {text}"))
        elif name not in _DEFAULTS.factors:
            self.report(unknown(place, "factor", kind.factors if kind is _TIMING else _FACTORS))
        elif name not in kind.factors:
            self.report(Problem(place, kind.why_not))
        else:
            return True
        return False

    def _factor(self, name: str, place: Place, raw: Any, kind: _Kind = _TRAINING) -> Any:
        if name in ("dataset", "model"):
            known = self.datasets if name == "dataset" else self.models
            if not isinstance(raw, str) or raw not in known:
                expected = f"one of {', '.join(sorted(known))}"
                self.report(received(place, raw, expected, sorted(known)))
                raise _Broken
            if known[raw] is None:  # reported where it is defined
                raise _Broken
            return known[raw][0]
        return self._coerce(place, kind.factors[name], raw)

    def _coerce(self, place: Place, parameter: Parameter, raw: Any) -> Any:
        try:
            return values.coerce(parameter, raw)
        except ValueError:
            self.report(received(place, raw, parameter.expected, parameter.choices))
            raise _Broken from None

    # Experiments.

    def _experiment(
        self, name: str, body: dict[str, Any], defaults: dict[str, Any]
    ) -> Experiment | None:
        place = ("experiments", name)
        grid = self._grid(place, body, defaults, _TRAINING)
        measures, between = self._measures((*place, "measure"), body.get("measure"))
        self._check_figures(place, body, measures)
        numbers = self._numbers(place, body, _TRAINING)
        at_epochs = self._at_epochs(place, body, measures)
        margins = self._margins((*place, "margins"), body, measures)
        beside = self._beside((*place, "beside"), body)
        if self._broken(place, *self._inherited(grid)) or not grid.complete:
            return None
        runs = self._expand(grid, measures)
        if not runs:
            return None
        self._check_norms(place, runs, measures)
        self._check_kept((*place, "at_epochs"), at_epochs, runs)
        return Experiment(
            name=name,
            title=body.get("title", name),
            question=body.get("question", ""),
            set=grid.set,
            cases=tuple(grid.cases),
            vary=grid.vary,
            seeds=tuple(grid.seeds),
            runs=tuple(runs),
            measures=measures,
            datasets=tuple(dict.fromkeys(self.runs[run].factors["dataset"] for run in runs)),
            models=tuple(dict.fromkeys(self.runs[run].factors["model"] for run in runs)),
            pairs={measure: self._pairs(found, runs) for measure, found in between.items()},
            figures=tuple(body.get("figures", ())),
            published=_words(body),
            numbers=numbers,
            at_epochs=tuple(sorted(at_epochs)),
            margins=margins,
            beside=beside,
        )

    def _grid(
        self, place: Place, body: dict[str, Any], defaults: dict[str, Any], kind: _Kind
    ) -> _Grid:
        cases = body.get("cases")
        cases = cases if isinstance(cases, list) and cases else [{}]
        grid = _Grid(
            place=place,
            defaults=defaults,
            set=self._scalars((*place, "set"), body.get("set"), kind),
            cases=[
                self._scalars((*place, "cases", index), case, kind)
                for index, case in enumerate(cases)
            ],
            vary=self._lists((*place, "vary"), body.get("vary"), kind),
            seeds=self._seeds((*place, "seeds"), body) if kind is _TRAINING else (0,),
            kind=kind,
        )
        self._check_twice(place, body, cases, kind)
        self._check_complete(place, body, cases, kind)
        return grid

    def _timing_experiment(
        self, name: str, body: dict[str, Any], defaults: dict[str, Any]
    ) -> Experiment | None:
        place = ("experiments", name)
        for key in ("measure", "seeds", "margins", "beside"):
            if key in body:
                text = "received beside `timing`; an experiment that trains or one of times is"
                self.report(Problem((*place, key), f"{text} expected."))
        grid = self._grid(place, body, defaults, _TIMING)
        timings, _ = self._measures(
            (*place, "timing"), body.get("timing"), measure_settings.TIMINGS
        )
        at_epochs = self._at_epochs(place, body, timings)
        self._check_figures(place, body, timings)
        numbers = self._numbers(place, body, _TIMING)
        if self._broken(place, *self._inherited(grid)) or not grid.complete:
            return None
        if self._too_many(grid):
            return None
        combinations = []
        for _, factors, find in grid.combinations():
            self._check_step(factors, find)
            self._check_loop(factors, find)
            self._check_framework(factors, find, timings)
            combinations.append(factors)
        found = tuple(sweeps.group(combinations))
        self._check_sweep_names(place, found)
        return Experiment(
            name=name,
            title=body.get("title", name),
            question=body.get("question", ""),
            set=grid.set,
            cases=tuple(grid.cases),
            vary=grid.vary,
            seeds=(),
            runs=(),
            measures={},
            datasets=tuple(dict.fromkeys(sweep.factors["dataset"] for sweep in found)),
            models=tuple(dict.fromkeys(sweep.factors["model"] for sweep in found)),
            figures=tuple(body.get("figures", ())),
            published=_words(body),
            numbers=numbers,
            at_epochs=tuple(sorted(at_epochs)),
            timings=timings,
            sweeps=found,
        )

    def _check_sweep_names(self, place: Place, found: tuple[sweeps.Sweep, ...]) -> None:
        try:
            for sweep in found:
                _ = sweep.name
        except ValueError:
            text = (
                f"received batch sizes whose name has more than {parameters.MAX_NAME_LENGTH} "
                "characters; fewer, or ranges without gaps, are expected."
            )
            self.report(Problem((*place, "vary"), text))

    def _check_loop(self, factors: dict[str, Any], find: Callable[[str], Place]) -> None:
        """What the loop in the graph cannot do: it has no Python between its steps."""
        if factors["loop"] == "graph":
            if factors["input_pipeline"] != "plain":
                text = f"received {factors['input_pipeline']} with loop graph, which takes its "
                text += "batches from its own arrays; plain, or another loop, is expected."
                self.report(Problem(find("input_pipeline"), text))
            if factors["delay_seconds"]:
                text = "received with loop graph, which cannot wait between steps; another loop is"
                self.report(Problem(find("delay_seconds"), f"{text} expected."))
        else:
            for name, simple in (("replicas", 1), ("method", "plain"), ("augmentation", "none")):
                if factors[name] != simple:
                    text = f"received {factors[name]} with loop {factors['loop']}; {simple} is "
                    self.report(Problem(find(name), f"{text}expected, or loop graph."))

    def _check_framework(
        self, factors: dict[str, Any], find: Callable[[str], Place], timings: dict[str, Any]
    ) -> None:
        """What the frameworks beside TensorFlow have: two networks, and one loop of their own."""
        framework = factors["framework"]
        if framework == environments.OWN:
            return
        plain = ("loop", "input_pipeline", "method", "augmentation")
        births = {name: sweeps.FACTORS[name].birth for name in plain}
        allowed = {
            "model": FRAMEWORK_MODELS,
            "optimizer": FRAMEWORK_OPTIMIZERS,
            **{name: (birth,) for name, birth in births.items()},
            **{"delay_seconds": (0,), "replicas": (1,), "momentum": (0,)},
        }
        wrong = [
            (f"{name} {factors[name]}", f"{name} {' or '.join(map(str, values))}")
            for name, values in allowed.items()
            if factors[name] not in values
        ]
        if not {*timings} <= {*FRAMEWORK_TIMINGS}:
            others = [name for name in timings if name not in FRAMEWORK_TIMINGS]
            wrong.append((_listed(others), f"{' or '.join(FRAMEWORK_TIMINGS)} in timing alone"))
        if wrong:
            found, expected = (_listed(list(words)) for words in zip(*wrong, strict=True))
            verb = "is" if len(wrong) == 1 else "are"
            text = f"received '{framework}' with {found}; {expected} {verb} expected."
            self.report(Problem(find("framework"), text))

    def _too_many(self, grid: _Grid) -> bool:
        if grid.size <= self._max_runs():
            return False
        text = f"received {grid.size} runs; at most {self._max_runs()} (max_runs) are expected."
        self.report(Problem(grid.place, text))
        return True

    def _pairs(self, between: pairs.Between, runs: list[str]) -> tuple[pairs.Pair, ...]:
        found = pairs.find(between, ((run, self.runs[run].factors) for run in runs))
        if not found:
            self.report(pairs.none_found(between))
        # A cluster's executor makes one file name of both runs and the settings.
        if any(len(small) + len(large) > _LONGEST_PAIR for small, large in found):
            text = f"received two runs whose names have more than {_LONGEST_PAIR} characters; "
            text += "shorter names of data set and model are expected."
            self.report(Problem(between.place, text))
        return found

    def _check_norms(self, place: Place, runs: list[str], measures: dict[str, Any]) -> None:
        """What displacement adds up is kept by a training that was asked to."""
        if "displacement" in measures:
            lacking = [run for run in runs if not self.runs[run].factors["update_norms"]]
            if lacking:
                text = f"received runs without update_norms ({len(lacking)}); update_norms: true"
                at = (*place, "measure", "displacement")
                self.report(Problem(at, f"{text} is expected, in set or defaults."))

    def _inherited(self, grid: _Grid) -> list[Place]:
        """Places of the defaults that an experiment does not give itself."""
        own = {*grid.set, *grid.vary, *set.intersection(*map(set, grid.cases))}
        return [("defaults", name) for name in _map(self.config.get("defaults")) if name not in own]

    def _seeds(self, place: Place, body: dict[str, Any]) -> tuple[int, ...] | range:
        raw = body.get("seeds")
        if within(self._origin(place), self.found):
            return ()
        if raw is None:
            expected = "a positive whole number or a list of whole numbers"
            self.report(missing(place, expected))
            return ()
        if isinstance(raw, list):
            seed = names.FACTORS["seed"]
            return self._distinct(place, raw, lambda at, item: self._coerce(at, seed, item))
        try:
            return range(self._coerce(place, _SEED_COUNT, raw))
        except _Broken:
            return ()

    def _at_epochs(
        self, place: Place, body: dict[str, Any], measures: dict[str, Any]
    ) -> tuple[int, ...]:
        """Returns the numbers of epochs that an experiment asks for, as written."""
        at, raw = (*place, "at_epochs"), body.get("at_epochs")
        if raw is None:
            self._refuse_figures(place, body, EPOCH_FIGURES, "at_epochs")
            return ()
        if not isinstance(raw, list) or not raw:
            self.report(received(at, raw, "a list of at least one number of epochs"))
            return ()
        if not {"evaluate", "time_epoch", "throughput"} & {*measures}:
            text = "received without what they are for; evaluate or time_epoch in measure, or "
            text += "throughput in timing, is "
            self.report(Problem(at, f"{text}expected."))
        return self._distinct(at, raw, lambda where, item: self._coerce(where, _EPOCH, item))

    def _margins(
        self, place: Place, body: dict[str, Any], measures: dict[str, Any]
    ) -> dict[str, float]:
        """Returns the margins that an experiment states, by outcome."""
        raw, found = body.get("margins"), {}
        if raw is None:
            self._refuse_figures(place[:-1], body, MARGIN_FIGURES, "margins")
            return {}
        for outcome, value in _map(raw).items():
            at = (*place, outcome)
            if outcome not in MARGIN_OUTCOMES:
                self.report(unknown(at, "outcome", MARGIN_OUTCOMES))
            elif not within(self._origin(at), self.found):
                with contextlib.suppress(_Broken):
                    found[outcome] = self._coerce(at, _MARGIN, value)
        if "evaluate" not in measures:
            text = "received without what it is of; evaluate in measure is expected."
            self.report(Problem(place, text))
        return found

    def _beside(self, place: Place, body: dict[str, Any]) -> tuple[str, ...]:
        """Returns the experiments of times whose limits are drawn beside an experiment's own."""
        raw = body.get("beside")
        if not isinstance(raw, list):  # the schema reports what is none
            return ()
        if "margins" not in body:
            text = "received without margins, beside which it is drawn; margins are expected."
            self.report(Problem(place, text))
        experiments = _map(self.config.get("experiments"))
        timed = [name for name, other in experiments.items() if "timing" in _map(other)]
        for index, name in enumerate(raw):
            if name not in timed:
                expected = f"an experiment of times ({', '.join(timed) or 'there is none'})"
                self.report(received((*place, index), name, expected, timed))
        return tuple(raw)

    def _refuse_figures(
        self, place: Place, body: dict[str, Any], figures: tuple[str, ...], key: str
    ) -> None:
        """Refuses the figures that need a key, in an experiment without it."""
        drawn = body.get("figures")
        named = [("figures", *item) for item in enumerate(drawn if isinstance(drawn, list) else ())]
        named += [("published", name, name) for name in _map(body.get("published"))]
        for section, at, name in named:
            if name in figures:
                text = f"received '{name}' without what it needs; {key} in the experiment is "
                self.report(Problem((*place, section, at), f"{text}expected."))

    def _check_kept(self, place: Place, at_epochs: tuple[int, ...], runs: list[str]) -> None:
        """What is measured after an epoch needs the weights of that epoch, of every run."""
        horizons = {self.runs[run].factors["epochs"] for run in runs}
        kept = set.intersection(*(set(snapshots.kept_epochs(epochs)) for epochs in horizons))
        for index, epoch in enumerate(at_epochs):
            if epoch > min(horizons):
                text = f"received {epoch}; at most {min(horizons)} is expected, the epochs of "
                text += "every run." if len(horizons) == 1 else "the shortest run."
                self.report(Problem((*place, index), text))
            elif epoch not in kept:
                below = max(other for other in kept if other < epoch)
                above = min((other for other in kept if other > epoch), default=None)
                nearest = f"{below} or {above}" if above else str(below)
                text = f"received {epoch}, after which no weights are kept; {nearest} is expected."
                self.report(Problem((*place, index), text))

    def _check_figures(self, place: Place, body: dict[str, Any], measures: dict[str, Any]) -> None:
        drawn = body.get("figures")
        drawn = drawn if isinstance(drawn, list) else []
        for index, name in enumerate(drawn):
            at = (*place, "figures", index)
            if name in drawn[:index]:
                text = f"received '{name}' again; every figure once is expected."
                self.report(Problem(at, text))
            self._check_figure(at, name, measures)
        for name in _map(body.get("published")):
            at = (*place, "published", name)
            self._check_figure(at, name, measures)
            if drawn and name in FIGURES and name not in drawn:
                text = f"received '{name}', which is not drawn; a figure of `figures` is expected."
                self.report(Problem(at, text))

    def _numbers(
        self, place: Place, body: dict[str, Any], kind: _Kind
    ) -> dict[str, tuple[published.Series, ...]]:
        """Returns a document's numbers by figure, for the figures that are given some."""
        found = {}
        factors = functools.partial(self._scalars, kind=kind)
        for name, given in _map(body.get("published")).items():
            if name in FIGURES and "numbers" in _map(given):
                at = (*place, "published", name, "numbers")
                found[name] = published.read(at, name, given["numbers"], factors, self.report)
        return found

    def _check_figure(self, place: Place, name: Any, measures: dict[str, Any]) -> None:
        if name not in FIGURES:
            self.report(received(place, name, "the name of a figure", FIGURES))
            return
        lacking = [one for one in FIGURES[name] if not {*one.split("|")} & {*measures}]
        if lacking:
            text = f"received '{name}' without what it needs; {_listed(_homes(lacking))} is "
            self.report(Problem(place, f"{text}expected."))

    def _check_twice(
        self, place: Place, body: dict[str, Any], cases: list[Any], kind: _Kind
    ) -> None:
        by_case = dict.fromkeys(name for case in cases for name in _map(case))
        homes = {"set": _map(body.get("set")), "cases": by_case, "vary": _map(body.get("vary"))}
        for factor in kind.factors:
            given = [home for home, factors in homes.items() if factor in factors]
            if len(given) > 1 and factor != "seed":
                at = (*place, given[-1], factor)
                text = f"received in {_listed(given)}; one of them is expected."
                self.report(Problem(at, text))

    def _check_complete(
        self, place: Place, body: dict[str, Any], cases: list[Any], kind: _Kind
    ) -> None:
        """Reports factors that a run must have and nothing gives."""
        homes = [("defaults",), *((*place, home) for home in ("set", "vary", "cases"))]
        if any(within(self._origin(home), self.found) for home in homes):
            return  # a whole map is unreadable: nothing is known of what it gives
        given = {*_map(self.config.get("defaults")), *_map(body.get("set"))}
        given |= {*_map(body.get("vary"))} | set.intersection(*(set(_map(case)) for case in cases))
        if any(name not in _DEFAULTS.factors for name in given):
            return  # most likely a core factor, misspelt, and reported
        for factor in kind.core:
            if factor not in given:
                expected = kind.factors[factor].expected
                text = f"missing; {expected} is expected, here or in defaults, vary or every case."
                self.report(Problem((*place, "set", factor), text))

    def _measures(
        self, place: Place, raw: Any, known: dict[str, Any] = measure_settings.MEASURES
    ) -> tuple[dict[str, dict[str, Any]], dict[str, pairs.Between]]:
        """Returns every setting of each measure, and what pairs the runs of some."""
        result: dict[str, dict[str, Any]] = {}
        between: dict[str, pairs.Between] = {}
        for at, name, settings in _measure_items(place, raw):
            if name not in known:
                choices = sorted(known)
                self.report(received(at, name, f"one of {', '.join(choices)}", choices))
                continue
            if name in result:
                text = f"received '{name}' again; every {_noun(known)} once is expected."
                self.report(Problem(at, text))
                continue
            if name in measure_settings.PAIR_MEASURES:
                found = pairs.read(
                    (*at, "between"), _map(settings).get("between"), self._paired_value
                )
                if isinstance(found, Problem):
                    self.report(found)
                else:
                    between[name] = found
                settings = {k: v for k, v in _map(settings).items() if k != "between"}
            result[name] = self._settings(at, name, known[name], settings)
        return result, between

    def _paired_value(self, factor: str, place: Place, raw: Any) -> Any:
        try:
            return self._factor(factor, place, raw)
        except _Broken:
            return None

    def _settings(
        self, place: Place, measure: str, parameters: dict[str, Parameter], given: Any
    ) -> dict[str, Any]:
        settings = {name: parameter.birth for name, parameter in parameters.items()}
        for name, raw in _map(given).items():
            at = (*place, name)
            if name not in parameters:
                self.report(unknown(at, "setting", parameters))
                continue
            if (measure, name) == ("evaluate", "epoch"):
                self.report(received(at, raw, EXPECTED_EPOCH))
                continue
            if within(self._origin(at), self.found):
                continue
            try:
                settings[name] = self._setting(at, parameters[name], raw)
            except _Broken:
                continue
        if measure == "landscape":
            self._check_landscape(place, settings)
        if measure == "line" and settings["start"] >= settings["stop"]:
            text = f"received {settings['stop']:g}; a number above start, {settings['start']:g}, is"
            self.report(Problem((*place, "stop"), f"{text} expected."))
        try:
            measure_settings.settings_name(measure, settings)
        except ValueError:
            text = f"a name of at most {parameters.MAX_NAME_LENGTH} characters is expected."
            self.report(Problem(place, f"received too many settings to spell; {text}"))
        return settings

    def _check_landscape(self, place: Place, settings: dict[str, Any]) -> None:
        if settings["points"] % 2 == 0:
            text = (
                f"received {settings['points']}; an odd number is expected: 0 is among the points."
            )
            self.report(Problem((*place, "points"), text))
        if settings["pairs"] == settings["lines"] == 0:
            text = "received no pairs and no lines; at least one of either is expected."
            self.report(Problem((*place, "pairs"), text))

    def _setting(self, place: Place, parameter: Parameter, raw: Any) -> Any:
        if not parameter.many or not isinstance(raw, list) or not raw:
            return self._coerce(place, parameter, raw)
        items = self._distinct(place, raw, lambda at, item: self._item(at, parameter, item))
        if len(items) < len(raw):
            raise _Broken
        return self._coerce(place, parameter, items)

    def _item(self, place: Place, parameter: Parameter, raw: Any) -> Any:
        try:
            return values.coerce_item(parameter, raw)
        except ValueError:
            self.report(received(place, raw, parameter.expected_item, parameter.choices))
            raise _Broken from None

    # Runs.

    def _max_runs(self) -> int:
        try:
            return values.coerce(_RUN_COUNT, self.config.get("max_runs", MAX_RUNS))
        except ValueError:
            return MAX_RUNS  # the schema reports it

    def _expand(self, grid: _Grid, measures: dict[str, Any]) -> list[str]:
        if self._too_many(grid):
            return []
        runs: list[str] = []
        cases: dict[str, int] = {}  # run -> the case that gave it
        timed = "time_epoch" in measures
        for index, factors, find in grid.combinations():
            self._check_combination(factors, find)
            for seed in grid.seeds:
                run = {**factors, "seed": seed}
                name = self._run_name(grid.place, run, timed)
                if name is None:
                    return []
                if name in cases:  # values of vary and seeds are distinct: it is the case
                    text = f"received the runs of cases[{cases[name]}] again; "
                    place = (*grid.place, "cases", index)
                    self.report(Problem(place, text + "every run once is expected."))
                    return []
                cases[name] = index
                runs.append(name)
                self.runs.setdefault(name, Run(name, run))
        return runs

    def _run_name(self, place: Place, factors: dict[str, Any], timed: bool) -> str | None:
        try:
            name = names.run_name(factors)
            if timed:
                names.timing_name(factors)
        except ValueError:
            text = (
                f"received a run whose name has more than {parameters.MAX_NAME_LENGTH} characters; "
                "shorter names of data set and model are expected."
            )
            self.report(Problem(place, text))
            return None
        return name

    def _check_machines(self) -> None:
        own = self.config.get("machine", "local")
        for name, body in _map(self.config.get("machines")).items():
            place = ("machines", name)
            if name == own:
                text = "received the name of this machine; a name of its own is expected: "
                self.report(Problem(place, f"{text}`machine` names this one."))
            folder = _map(body).get("results")
            if not isinstance(folder, str):
                continue
            if os.path.normpath(folder) == "results":
                text = "received 'results', this machine's own; a copy of the other's is expected."
                self.report(Problem((*place, "results"), text))
            elif not Path(folder).is_dir():
                text = f"received '{folder}', which is not there: nothing of {name} is shown."
                self.warnings[Problem((*place, "results"), text).line] = None

    def _check_total(self) -> None:
        limit = self._max_runs()
        if len(self.runs) > limit and not self.problems:
            text = (
                f"received {len(self.runs)} runs in all experiments; at most {limit} are expected."
            )
            self.report(Problem(("max_runs",), text))

    def _check_combination(self, factors: dict[str, Any], find: Callable[[str], Place]) -> None:
        self._check_step(factors, find)
        self._check_warmup(factors, find)
        self._check_source(factors, find)
        if not factors["threads"]:
            text = "received 'all'; a positive whole number is expected: a training's last bits "
            self.report(Problem(find("threads"), f"{text}depend on it."))

    def _check_source(self, factors: dict[str, Any], find: Callable[[str], Place]) -> None:
        if self.sources.get(factors["dataset"]) in definitions.TIMING_ONLY_SOURCES:
            name = names.split_token(factors["dataset"])[0]
            text = f"received {name}, which is for times alone: its splits overlap; another data "
            self.report(Problem(find("dataset"), f"{text}set is expected."))

    def _check_step(self, factors: dict[str, Any], find: Callable[[str], Place]) -> None:
        """What a step depends on, in a training or in a timing."""
        self._check_batch_size(factors, find)
        self._check_momentum(factors, find)
        if factors["replicas"] > factors["batch_size"]:
            text = f"received {factors['replicas']}; at most the batch size, "
            text += f"{factors['batch_size']}, is expected."
            self.report(Problem(find("replicas"), text))
        self._check_method(factors, find)
        if factors["device"] == "gpu" and not gpu_present():
            place = self._origin(find("device"))
            self.warnings[
                Problem(
                    place,
                    "received 'gpu'; no NVIDIA GPU is seen on this machine. Install its driver, "
                    "run on a machine that has one, or set device: cpu.",
                ).line
            ] = None

    def _check_method(self, factors: dict[str, Any], find: Callable[[str], Place]) -> None:
        """What a method is given, and what a batch that is divided cannot do."""
        for method, own in names.METHOD_PARAMETERS.items():
            for name in own:
                # Of times, only what a step's time depends on is a factor.
                birth = names.FACTORS[name].birth
                if factors["method"] != method and factors.get(name, birth) != birth:
                    text = f"received {show(factors[name])} with method {factors['method']}; "
                    text += f"it is expected of {method} alone."
                    self.report(Problem(find(name), text))
        if factors["replicas"] > 1:
            for name, simple in (("method", "plain"), ("augmentation", "none")):
                if factors[name] not in (simple, "crop"):
                    text = f"received {factors[name]} with {factors['replicas']} replicas; "
                    self.report(Problem(find(name), f"{text}{simple} is expected, or 1 replica."))
        if factors["method"] == "conservative" and factors.get("warmup_epochs"):
            text = f"received {factors['warmup_epochs']} with method conservative, whose inner "
            text += "steps would count as updates; 0 is expected."
            self.report(Problem(find("warmup_epochs"), text))

    def _check_batch_size(self, factors: dict[str, Any], find: Callable[[str], Place]) -> None:
        size = self.sizes.get(factors["dataset"])
        if size is not None and factors["batch_size"] > size:
            name = names.split_token(factors["dataset"])[0]
            text = (
                f"received {factors['batch_size']}; at most {size} is expected, "
                f"the training images of {name}."
            )
            self.report(Problem(find("batch_size"), text))

    def _check_momentum(self, factors: dict[str, Any], find: Callable[[str], Place]) -> None:
        optimizer, momentum = factors["optimizer"], factors["momentum"]
        if momentum and optimizer not in ("sgd", "rmsprop"):
            text = (
                f"received {momentum:g} for {optimizer}; it is expected of sgd and rmsprop alone."
            )
            self.report(Problem(find("momentum"), text))
        if factors["nesterov"] and (optimizer != "sgd" or not momentum):
            given = optimizer if momentum else f"{optimizer} without momentum"
            text = f"received true for {given}; sgd with a momentum above 0 is expected."
            self.report(Problem(find("nesterov"), text))

    def _check_warmup(self, factors: dict[str, Any], find: Callable[[str], Place]) -> None:
        warmup = factors["warmup_epochs"]
        if warmup > factors["epochs"]:
            text = f"received {warmup}; at most {factors['epochs']}, the epochs, is expected."
            self.report(Problem(find("warmup_epochs"), text))
        elif warmup and factors["learning_rate_scaling"] == "none":
            text = f"received {warmup} without learning_rate_scaling; linear or sqrt is expected: "
            text += "the rate rises to the scaled one."
            self.report(Problem(find("warmup_epochs"), text))


def _homes(lacking: list[str]) -> list[str]:
    """Returns `evaluate in measure`, or `time_epoch in measure or throughput in timing`."""
    return [
        " or ".join(
            f"{name} in {'timing' if name in measure_settings.TIMINGS else 'measure'}"
            for name in one.split("|")
        )
        for one in lacking
    ]


def _words(body: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Returns what a document says in words, by figure."""
    return {
        name: {key: text for key, text in given.items() if key != "numbers"}
        for name, given in _map(body.get("published")).items()
    }


def _noun(known: dict[str, Any]) -> str:
    return "timing" if known is measure_settings.TIMINGS else "measure"


def _listed(words: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def _binds_build(tree: ast.Module) -> bool:
    """Whether a module may bind the name `build`."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == "build":
            return True
        if isinstance(node, ast.ImportFrom | ast.Import):
            bound = {alias.asname or alias.name for alias in node.names}
            if bound & {"build", "*"}:
                return True
        if any(
            isinstance(part, ast.Name) and part.id == "build" and isinstance(part.ctx, ast.Store)
            for part in ast.walk(node)
        ):
            return True
    return False


def _measure_items(place: Place, raw: Any) -> Iterator[tuple[Place, str, Any]]:
    """Yields place, name and settings of what is measured, from a list or a map."""
    if isinstance(raw, dict):
        for name, settings in raw.items():
            yield (*place, name), name, settings
    for index, item in enumerate(raw if isinstance(raw, list) else ()):
        if isinstance(item, str):
            yield (*place, index), item, None
        for name, settings in _map(item).items():
            yield (*place, index, name), name, settings
