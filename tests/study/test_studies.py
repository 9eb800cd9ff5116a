"""Every shipped study plans at its scales, and shows what it measures; no data is read."""

import dataclasses
import functools
import re

import pytest

from batchscope import figures
from batchscope.study import config
from project import ROOT

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
    return set(figures.figure_names(experiment)), set(figures.figure_names(allowed))


planned = functools.cache(config.study)


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
        read = {one for figure in drawn for one in figures.FIGURES[figure].measures}
        read = {measure for one in read for measure in one.split("|")}
        # What is evaluated stands in the answer and in the table of runs, too.
        assert {*experiment.measures, *experiment.timings} - {"evaluate"} <= read, name


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_study_has_the_seeds_to_decide_what_it_states(path):
    """Times apart, of which there is one job per configuration; the reduced form is smaller."""
    study = planned(path, "full")
    stated = {claim.test.experiment for claim in study.claims if not claim.test.timed}
    stated |= {name for name, one in study.experiments.items() if one.keys.margins}
    for text in study.warnings:
        place = text.partition(":")[0]
        assert "received 1 timing job" in text or place.split(".")[1] not in stated, text
    if path in REDUCED:
        reduced = planned(path, "reduced")
        assert list(study.experiments) == list(reduced.experiments)
        assert len(reduced.runs) <= len(study.runs)
