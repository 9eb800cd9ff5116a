"""Every shipped study plans at its scales, and shows what it measures; no data is read."""

import dataclasses
import functools
import re
from pathlib import Path

import pytest

from batchscope import figures
from batchscope.study import config, outcomes

ROOT = Path(__file__).parents[2]
FILES = [ROOT / "config.yaml", *sorted(ROOT.glob("studies/*.yaml"))]
# All but those that take minutes as they are.
REDUCED = [path for path in FILES[1:] if "\nreduced:" in path.read_text(encoding="utf-8")]
PLANS = [
    *(pytest.param(path, "full", id=path.stem) for path in FILES),
    *(pytest.param(path, "reduced", id=f"{path.stem}-reduced") for path in REDUCED),
]


def shown(experiment) -> tuple[set[str], set[str]]:
    """Returns the figures that an experiment draws, and those that it could draw."""
    allowed = dataclasses.replace(
        experiment, keys=experiment.keys.model_copy(update={"figures": ()})
    )
    return set(figures.drawn(experiment)), set(figures.drawn(allowed))


planned = functools.cache(config.study)


def of(name: str, scale: str = "full"):
    return planned(ROOT / "studies" / f"{name}.yaml", scale)


@pytest.mark.parametrize(("path", "scale"), PLANS)
def test_a_study_is_valid_and_shows_what_it_measures(path, scale):
    study = planned(path, scale)
    seeds = re.compile(r"(reduced\.)?experiments\.\w+\.seeds: ")
    assert all(map(seeds.match, study.warnings))
    assert study.experiments
    for name, experiment in study.experiments.items():
        drawn, allowed = shown(experiment)
        assert drawn, name
        assert drawn <= allowed, name  # its tables have what the figure needs
        assert set(experiment.keys.published) <= drawn, name
        read = {one for figure in drawn for one in figures.FIGURES[figure].requires.measures}
        read = {measure for one in read for measure in one.split("|")}
        # What is evaluated stands in the answer and in the table of runs, too.
        assert {*experiment.measures, *experiment.timings} - {"evaluate"} <= read, name


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_study_at_full_scale_has_the_cells_and_seeds_to_decide_what_it_states(path):
    """Times apart, of which there is one job per configuration."""
    study = planned(path, "full")
    warned = [text for text in study.warnings if "received 1 timing job" not in text]
    stated = {claim.test.experiment for claim in study.claims if not claim.test.timed}
    stated |= {name for name, one in study.experiments.items() if one.keys.margins}
    for text in warned:
        assert not any(f"experiments.{name}.seeds:" in text for name in stated), text


@pytest.mark.parametrize("path", REDUCED, ids=lambda path: path.stem)
def test_a_reduced_study_is_smaller_and_has_the_same_experiments(path):
    full, reduced = planned(path, "full"), planned(path, "reduced")
    assert list(full.experiments) == list(reduced.experiments)
    assert len(reduced.runs) <= len(full.runs)


def test_a_study_says_where_it_cannot_give_a_verdict():
    warnings = of("text", "reduced").warnings
    for text, name in zip(warnings, ("batch_size", "noise"), strict=True):
        assert text.startswith(f"reduced.experiments.{name}.seeds: ")
        assert "at least 6 seeds (received 3)" in text
    assert of("accumulation", "reduced").warnings == ()
    assert of("keskar2017").warnings == ()
    assert {len(one.seeds) for one in of("keskar2017").experiments.values()} == {10}
    assert len(of("chang2020").experiments["surfaces"].seeds) == 6


def test_reduced_keskar_keeps_the_images_and_the_batch_sizes_that_its_claims_name():
    full, study = of("keskar2017"), of("keskar2017", "reduced")
    assert study.datasets == full.datasets
    for experiment in study.experiments.values():
        assert len(experiment.seeds) >= outcomes.LEAST_SEEDS
        assert {run["batch_size"] for run in experiment.runs.values()} == {256, 6000}
