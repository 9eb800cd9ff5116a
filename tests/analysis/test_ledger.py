"""From tidy tables to verdicts: cells, series, families, and what cannot be tested."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas
import pytest

import costs
from batchscope.analysis import claim_cells, claim_power, claim_words, ledger, paired_tests
from batchscope.catalogue import decision_columns
from batchscope.study import claims as stated
from batchscope.study.claims import Claim

SIZES, RATES = (16, 32, 64, 128), ("sgd", "adam")
NAMES = ("SGD", "Adam")  # as labels have them


def runs(value, seeds=range(6), sizes=SIZES, **factors) -> pandas.DataFrame:
    """Returns rows of runs.csv: `value(batch_size, seed, optimizer)` is the test accuracy."""
    rows = [
        {
            **{"run": f"{optimizer}-{size}-{seed}", "machine": "local", "optimizer": optimizer},
            **{"batch_size": size, "seed": seed, "status": "finished"},
            "learning_rate": {"sgd": 0.1, "adam": 0.001}[optimizer],
            "test_accuracy": value(size, seed, optimizer),
            **factors,
        }
        for optimizer, size, seed in itertools.product(RATES, sizes, seeds)
    ]
    return pandas.DataFrame(rows)


def falling(size, seed, optimizer):
    slope = {"sgd": 0.02, "adam": 0.01}[optimizer]
    return 0.9 + 0.01 * seed - (slope + 1e-4 * (seed * size % 7)) * math.log2(size / 16)


def test(kind, **given) -> stated.Test:
    given = {"experiment": "gap", "table": "runs", "column": "test_accuracy", **given}
    return stated.Test(type=kind, **given)


test.__test__ = False


def found(frame, one):
    return claim_cells.parts(claim_cells.rows(frame, one), one)


def test_every_series_is_a_part_and_what_goes_with_it_names_it_once():
    parts = found(runs(falling), test("trend", direction="falls"))
    assert [label for label, _ in parts] == ["SGD", "Adam"]
    assert [tested.n for _, tested in parts] == [6, 6]
    assert parts[0][1].effect == pytest.approx(-0.02, abs=5e-4)
    (one,) = found(runs(falling), test("trend", direction="falls", cells={"optimizer": ("sgd",)}))
    assert one == ("", parts[0][1])


def test_sides_are_paired_by_seed_at_every_size_that_both_have():
    frame = runs(falling)
    frame = frame[~((frame["optimizer"] == "sgd") & (frame["batch_size"] == 16))]
    sides = {"of": {"optimizer": ("adam",)}, "to": {"optimizer": ("sgd",)}}
    parts = dict(found(frame, test("comparison", low=0.0, **sides)))
    assert [*parts] == ["batch size 32", "batch size 64", "batch size 128"]
    assert parts["batch size 64"].effect == pytest.approx(0.02, abs=1e-3)
    ((_, slopes),) = found(frame, test("interaction", low=0.0, **sides))
    assert slopes.effect == pytest.approx(0.01, abs=5e-4) and slopes.p < 1e-4


def test_every_cell_of_one_side_is_compared_with_the_other():
    sides = {"of": {"batch_size": (64, 128)}, "to": {"batch_size": (16,)}}
    one = test("comparison", high=0.0, cells={"optimizer": ("sgd",)}, **sides)
    parts = dict(found(runs(falling), one))
    assert [*parts] == ["batch size 64", "batch size 128"]
    assert parts["batch size 128"].effect == pytest.approx(-0.06, abs=2e-3)


def test_a_ratio_is_that_of_geometric_means():
    frame = runs(lambda size, seed, optimizer: size * (1 + 0.1 * seed))
    sides = {"of": {"batch_size": (128,)}, "to": {"batch_size": (16,)}}
    parts = found(frame, test("comparison", low=5.0, scale="ratio", **sides))
    assert [label for label, _ in parts] == ["SGD", "Adam"]
    for _, tested in parts:
        assert tested.effect == pytest.approx(8.0) and tested.p < 1e-9
    ((_, flat), _) = found(frame, test("equivalence", low=1 / 1.1, high=1.1, scale="ratio"))
    assert flat.effect == pytest.approx(8.0) and flat.p_against < 1e-9
    ((_, slope), _) = found(frame, test("trend", direction="rises", scale="ratio"))
    assert slope.effect == pytest.approx(2.0)


def test_a_run_that_did_not_finish_takes_its_seed_out():
    frame = runs(falling)
    frame.loc[0, "status"] = "diverged"
    sgd, adam = found(frame, test("trend", direction="falls"))
    assert (sgd[1].n, adam[1].n) == (5, 6)
    by_cell = dict(found(frame, test("value", low=0.5, cells={"optimizer": ("sgd",)})))
    assert [tested.n for tested in by_cell.values()] == [5, 6, 6, 6]


def test_keys_distinguish_rows_and_what_lies_in_one_cell_is_averaged():
    frame = pandas.concat(
        [
            runs(falling).assign(table="layers", layer=layer, distance=level)
            for layer, level in (("conv", 1.0), ("dense", 2.0))
        ]
    )
    one = test("value", table="layers", column="distance", low=0.0, cells={"batch_size": (16,)})
    labels = [label for label, _ in found(frame, one)]
    assert sorted(labels) == [
        f"{optimizer}, layer {layer}, batch size 16"
        for optimizer, layer in itertools.product(sorted(NAMES), ("conv", "dense"))
    ]
    twice = pandas.concat([runs(lambda *_: 1.0), runs(lambda *_: 3.0)])
    assert {tested.effect for _, tested in found(twice, test("value", low=0.0))} == {2.0}


def test_along_another_factor_every_batch_size_is_a_series():
    frame = pandas.concat(
        [
            runs(
                lambda size, seed, _, e=epoch: 0.5 + 0.1 * math.log2(e) + 0.001 * (seed % e)
            ).assign(at_epoch=epoch)
            for epoch in (1, 2, 4)
        ]
    )
    one = test("trend", table="at_epochs", over="at_epoch", direction="rises")
    parts = found(frame[frame["optimizer"] == "sgd"], one)
    assert [label for label, _ in parts] == [f"batch size {size}" for size in SIZES]
    assert parts[0][1].effect == pytest.approx(0.1, abs=2e-3)


def test_a_trajectory_is_read_at_its_last_row_within_a_budget():
    frame = evaluated()
    frame["updates"] = 320 * frame["epoch"] / frame["batch_size"]
    frame["validation_loss"] = 1.0 / frame["epoch"]
    given = {"table": "trajectories", "column": "validation_loss", "cells": {"updates": (40,)}}
    parts = dict(found(frame, test("value", low=0.0, **given)))
    assert parts["batch size 16"].effect == 0.5 and parts["batch size 32"].effect == 0.25
    ((_, slope),) = found(frame, test("trend", direction="falls", **given))
    assert slope.effect == -0.25


def evaluated(seeds=range(6), short=()) -> pandas.DataFrame:
    """Returns rows of trajectories.csv; trainings of `short`, (size, seed), end at half of them."""
    rows = []
    for size, seed, step in itertools.product((16, 32), seeds, range(1, 5)):
        if step <= 2 or (size, seed) not in short:
            row = {"run": f"{size}-{seed}", "machine": "local", "status": "finished", "seed": seed}
            row |= {"batch_size": size, "updates": 10 * step, "examples": 10 * size * step}
            loss = (1 + 0.01 * seed) / (step * size)
            rows.append({**row, "epoch": float(step), "seconds": 1.0, "validation_loss": loss})
    return pandas.DataFrame(rows)


def test_trainings_that_end_before_a_budget_leave_a_claim_untested():
    """Eight seeds are left, enough for a verdict: of those that went on."""
    of, at = {"table": "trajectories", "column": "validation_loss"}, {"updates": (40,)}
    falls = {**of, "cells": at, "direction": "falls"}
    assert row(evaluated(range(10)), "trend", **falls)["verdict"] == "held"
    some = evaluated(range(10), [(32, 3), (32, 7)])
    found = row(some, "trend", **falls)
    assert found["verdict"] == "cannot be tested here" and math.isnan(found["p_holm"])
    assert found["missing"] == "a value at updates 40 of every training: 2 of 20 have none there"
    # Not those that the claim does not read.
    small = row(some, "value", low=0.0, cells={**at, "batch_size": (16,)}, **of)
    assert small["verdict"] == "held"
    every = evaluated(short=[(size, seed) for size in (16, 32) for seed in range(6)])
    assert row(every, "trend", **falls)["missing"].endswith("12 of 12 have none there")


@pytest.mark.parametrize("kind", ["trend", "exception"])
def test_values_without_a_logarithm_leave_a_ratio_untested(kind):
    given = {"trend": {"scale": "ratio"}, "exception": {"chosen": (32,)}}[kind]
    given["direction"] = "falls"
    frame = runs(falling, seeds=range(8))
    assert row(frame, kind, **given)["verdict"] != "cannot be tested here"
    frame.loc[frame.index[:2], "test_accuracy"] = [0.0, -0.1]
    found = row(frame, kind, **given)
    assert found["verdict"] == "cannot be tested here"
    assert found["missing"] == "values above 0, of which ratios are taken: 2 of 64 are not"
    frame.loc[frame.index[:2], "status"] = "diverged"  # which leaves their seeds out
    assert row(frame, kind, **given)["verdict"] != "cannot be tested here"


def test_orders_best_sizes_and_exceptions_by_their_cells():
    frame = runs(lambda size, seed, optimizer: {"sgd": 1.0, "adam": 2.0}[optimizer] + 0.1 * seed)
    groups = ({"optimizer": ("sgd",)}, {"optimizer": ("adam",)})
    order = found(frame, test("order", order=groups))
    assert [label for label, _ in order] == [f"batch size {size}" for size in SIZES]
    assert all(tested.effect == pytest.approx(1.0) for _, tested in order)
    assert row(frame, "argmax", over="optimizer", chosen=("adam",))["verdict"] == "held"
    best = found(runs(falling), test("argmax", chosen=(16,)))
    assert [tested.p < 1e-4 for _, tested in best] == [True, True]
    dips = found(
        runs(lambda size, seed, _: size * (0.8 if size == 64 else 1.0) * (1 + 0.01 * seed)),
        test("exception", chosen=(32, 64), direction="falls", cells={"optimizer": ("sgd",)}),
    )
    assert [label for label, _ in dips] == ["batch size 32", "batch size 64"]
    assert dips[1][1].effect == pytest.approx(0.8)


def claim(name, one, document="A document", **given) -> Claim:
    return Claim(name, document, "Figure 1", "It falls.", one, **given)


def judged(frame, *claims):
    table = ledger.table(claims, lambda experiment, name: frame, "local")
    assert list(table.columns) == list(decision_columns.CLAIMS)
    return table.set_index("id")


def row(frame, kind, requires="", **given) -> pandas.Series:
    """Returns the row of a claim that is judged alone."""
    return judged(frame, claim("one", test(kind, **given), requires=requires)).loc["one"]


def test_a_verdict_is_adjusted_over_its_document():
    frame = runs(falling)
    given = [
        claim("falls", test("trend", direction="falls")),
        claim("rises", test("trend", direction="rises")),
        claim("high", test("value", low=0.89, cells={"batch_size": (16,), "optimizer": ("sgd",)})),
        claim("other", test("value", low=0.89, cells={"batch_size": (16,)}), "Another"),
    ]
    table = judged(frame, *given)
    assert table["verdict"].to_dict() == {
        **{"falls": "held", "rises": "not held", "high": "held", "other": "held"}
    }
    own = table[table["document"] == "A document"]
    assert own["p_holm"].tolist() == pytest.approx(paired_tests.holm(own["p"]).tolist())
    assert table["p_holm"]["other"] == table["p"]["other"]
    contraries = [found(frame, one.test) for one in given[:3]]
    p = [min(1.0, len(each) * min(part.p_against for _, part in each)) for each in contraries]
    assert own["p_against_holm"].tolist() == pytest.approx(paired_tests.holm(p).tolist())
    assert table["part"]["falls"] in NAMES and table["parts"]["falls"] == 2
    assert table["effect_is"]["falls"] == "per doubling of batch size"
    assert (table["n"] == 6).all() and (table["missing"] == "").all()


def test_a_slope_over_levels_with_a_zero_is_per_unit():
    """Zero has no doubling: dropout 0, .25 and .5 lie at equal distances."""
    frame = pandas.concat(
        [
            runs(lambda size, seed, _, p=p: 0.9 - (0.2 + 0.01 * seed) * p, dropout=p)
            for p in (0.0, 0.25, 0.5)
        ]
    )
    frame = frame[(frame["optimizer"] == "sgd") & (frame["batch_size"] == 16)]
    along = {"over": "dropout", "direction": "falls"}
    found = row(frame, "trend", **along)
    assert found["effect"] == pytest.approx(-0.225) and found["verdict"] == "held"
    assert found["effect_is"] == "per unit of dropout"
    found = row(frame[frame["dropout"] > 0], "trend", **along)
    assert found["effect"] == pytest.approx(-0.05625)
    assert found["effect_is"] == "per doubling of dropout"
    both = pandas.concat([frame, frame.assign(optimizer="adam", test_accuracy=0.9)])
    sides = {"of": {"optimizer": ("sgd",)}, "to": {"optimizer": ("adam",)}}
    found = row(both, "interaction", over="dropout", high=0.0, **sides)
    assert found["effect"] == pytest.approx(-0.225) and "per unit of dropout" in found["stated"]
    assert found["effect_is"] == "difference per unit of dropout"


def test_an_exception_beside_a_zero_is_not_tested():
    frame = pandas.concat([runs(falling, dropout=p) for p in (0.0, 0.25, 0.5)])
    found = row(frame, "exception", over="dropout", chosen=(0.25,), direction="falls")
    assert found["verdict"] == "cannot be tested here"


def test_what_is_open_says_what_would_decide_it():
    noise = np.random.default_rng(0).normal(scale=0.05, size=1000)
    frame = runs(lambda size, seed, _: 0.9 + noise[size + seed])
    found = row(frame, "value", low=0.89)
    assert found["verdict"] == "not resolved"
    assert "seeds (6 here), were the effect as found" in found["missing"]
    mixed = runs(lambda size, seed, _: math.log2(size) * (1.0 if seed > 1 else -20.0))
    found = row(mixed, "trend", direction="falls")
    assert found["effect"] < 0 and found["verdict"] == "not resolved"
    reason = "more seeds would not help, were the effect as found: its order, which is tested, "
    assert found["missing"] == reason + "and its slope do not go the same way"
    found = row(runs(lambda *_: 0.0), "trend", direction="falls")
    assert (found["effect"], found["verdict"]) == (0.0, "not resolved")
    assert found["missing"] == "no change was found; were there none, more seeds would not help"
    few = row(runs(falling, range(3)), "trend", direction="falls")
    assert few["verdict"] == "cannot be tested here"
    assert few["missing"] == "at least 6 seeds (3 here)"
    assert math.isnan(few["p_holm"]) and few["n"] == 3


def test_a_verdict_of_the_seeds_that_finished_says_how_many_they_are():
    one = claim("one", test("trend", direction="falls", cells={"optimizer": ("sgd",)}))
    frame = runs(falling, seeds=range(8))
    assert judged(frame, one)["survivors"]["one"] == ""
    failed = (frame["optimizer"] == "sgd") & (frame["seed"] < 2) & (frame["batch_size"] == 16)
    found = judged(frame.assign(status=np.where(failed, "diverged", "finished")), one).loc["one"]
    assert (found["verdict"], found["survivors"]) == ("held", "6 of 8 seeds finished in every cell")
    found = judged(frame[~failed], one).loc["one"]  # of a grid with fewer seeds there
    assert found["survivors"] == "6 of 8 seeds have a value in every cell"
    few = judged(frame[~failed & (frame["seed"] < 7)], one)
    assert few["verdict"]["one"] == "cannot be tested here"


def test_no_number_of_seeds_is_reported_that_nobody_trains(monkeypatch):
    wanted = (5640, claim_power.HOLDS)
    monkeypatch.setattr(ledger.claim_power, "replicates_wanted", lambda *_: wanted)
    noise = np.random.default_rng(0).normal(scale=0.05, size=1000)
    frame = runs(lambda size, seed, _: 0.9 + noise[size + seed])
    missing = row(frame, "value", low=0.89)["missing"]
    assert missing.startswith("more than 1,000 seeds (6 here), were the effect")


def test_many_trends_need_more_seeds_than_six(monkeypatch):
    """Page's test of 3 sizes and 6 seeds has no p below 6**-6."""
    one = test("trend", direction="falls")
    assert [stated.seeds_needed(one, 3, tests) for tests in (1, 2000, 3000)] == [6, 6, 7]
    assert stated.seeds_needed(test("value"), 3, 3000) == 6
    frame = runs(falling, sizes=SIZES[:3])
    assert row(frame, "trend", direction="falls")["verdict"] == "held"
    monkeypatch.setattr(ledger, "seeds_needed", lambda *_: 7)
    crowded = row(frame, "trend", direction="falls")
    assert crowded["verdict"] == "cannot be tested here"
    assert crowded["missing"] == "at least 7 seeds (6 here)"


def test_times_are_repeated_by_timing_jobs():
    job = pandas.DataFrame({"batch_size": SIZES, "status": "finished", "machine": "local"})
    job["seconds_per_step"] = 100.0 / job["batch_size"]
    falls = {"direction": "falls", "table": "throughput", "column": "seconds_per_step"}
    found = row(job.assign(repeat=1), "trend", **falls)
    assert found["verdict"] == "cannot be tested here" and found["n"] == 1
    assert found["missing"] == "at least 6 timing jobs of every configuration (1 here)"
    assert found["effect"] == pytest.approx(np.polyfit(range(4), [100 / s for s in SIZES], 1)[0])
    repeated = pandas.concat([job.assign(repeat=one) for one in range(1, 7)])
    assert row(repeated, "trend", **falls)["verdict"] == "held"
    noise = np.tile([1.0, -1.0, 0.5, -0.5, 0.8, -0.7], len(SIZES)).reshape(len(SIZES), 6).T.ravel()
    level = repeated.assign(seconds_per_step=1 + np.roll(noise, 1) + 0.01 * noise)
    found = row(level, "trend", **falls)
    assert found["verdict"] == "not resolved" and "timing jobs" in found["missing"]


@pytest.mark.parametrize(
    ("status", "requires", "missing"),
    [
        ("no_gpu", "", "a GPU"),
        ("missing", "gpu", "a GPU"),
        ("no_cores", "", "as many cores as threads"),
        ("not_installed", "", "an installation of mxnet"),
        ("diverged", "", "a finished run with a value in every cell: batch size 16"),
    ],
)
def test_what_is_not_here_is_named(status, requires, missing):
    frame = runs(falling)
    frame = frame[frame["optimizer"] == "sgd"].assign(framework="mxnet")
    frame.loc[frame["batch_size"] == 16, "status"] = status
    found = row(frame, "value", requires, low=0.5)
    assert (found["verdict"], found["missing"]) == ("cannot be tested here", missing)


def test_replicas_need_several_gpus():
    sides = {"of": {"replicas": (2,)}, "to": {"replicas": (1,)}}
    found = row(runs(falling), "comparison", "gpu", low=0.0, **sides)
    assert found["missing"] == "several GPUs"


def test_a_second_machine_is_asked_for_by_name_alone():
    frame = runs(falling)
    both = pandas.concat([frame, frame.assign(machine="cluster", test_accuracy=0.1)])
    sides = {"of": {"machine": ("local",)}, "to": {"machine": ("cluster",)}}
    alone, beside = (row(one, "comparison", "machine", low=0.0, **sides) for one in (frame, both))
    assert alone["missing"] == "the results of a second machine" and beside["verdict"] == "held"
    here = row(both, "value", low=0.5)
    assert here["verdict"] == "held" and here["parts"] == 8


def test_a_grid_without_the_cells_is_reported():
    frame = runs(falling)
    none, part = (
        row(frame, "value", low=0.5, cells={"batch_size": sizes}) for sizes in ((512,), (16, 512))
    )
    for found in (none, part):
        assert found["missing"] == "not in the grid of gap: batch size 512"
        assert found["verdict"] == "cannot be tested here"
    assert pandas.isna(none["n"]) and part["effect"] > 0.8 and math.isnan(part["p_holm"])
    one_size = row(frame, "trend", direction="falls", cells={"batch_size": (16,)})
    assert one_size["missing"] == "a grid of gap with these cells"
    assert row(frame.iloc[:0], "value", low=0.5)["missing"] == "results of gap"


@costs.draws(200)
def test_of_a_document_whose_claims_are_all_just_false_one_in_twenty_holds_anything(draws):
    """Six seeds, four series of noise: every claim lies at its own bound."""
    generator = np.random.default_rng(5)
    stated_here = [
        *(claim(f"t{way}", test("trend", direction=way)) for way in ("rises", "falls")),
        *(claim(f"v{size}", test("value", low=0.0, cells={"batch_size": (size,)}))
          for size in SIZES),
        claim("c", test("comparison", low=0.0, of={"batch_size": (64,)}, to={"batch_size": (16,)})),
        claim("a", test("argmax", chosen=(16,))),
    ]  # fmt: skip
    words = []
    for _ in range(draws):
        noise = generator.normal(size=(129, 6))
        frame = runs(lambda size, seed, _, drawn=noise: drawn[size, seed])
        frame = frame[frame["optimizer"] == "sgd"]
        words.append(set(judged(frame, *stated_here)["verdict"]))
    most = 0.05 + 3 * math.sqrt(0.05 * 0.95 / draws)
    for verdict in ("held", "not held"):
        assert np.mean([verdict in found_here for found_here in words]) <= most


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (
            test("trend", direction="falls", cells={"at_epoch": (1,)}),
            "test accuracy falls over batch size (at epoch 1)",
        ),
        (test("value", low=0.9), "test accuracy is above 90 %"),
        (
            test("value", table="throughput", column="iterations_per_second", low=-0.5),
            "step rate is above \N{MINUS SIGN}0.5 iterations/s",
        ),
        (test("value", low=0.6, high=0.64), "test accuracy is between 60 and 64 %"),
        (test("value", low=0.9, high=1.1), "test accuracy is above 90 %"),
        (test("value", low=-0.1, high=0.1), "test accuracy is below 10 %"),
        (test("value", low=-0.1, high=1.1), "test accuracy is between \N{MINUS SIGN}10 and 110 %"),
        (test("value", low=0.0), "test accuracy is above 0"),
        (
            test("value", column="generalisation_gap_accuracy", low=-0.1, high=0.1),
            "generalisation gap accuracy is between \N{MINUS SIGN}10 and 10 %",
        ),
        (
            test("equivalence", low=-0.05, high=0.05),
            "test accuracy differs by less than 5 points over batch size",
        ),
        (
            test("equivalence", low=1 / 1.1, high=1.1, scale="ratio"),
            "test accuracy differs by less than a factor of 1.1 over batch size",
        ),
        (
            test("comparison", low=5.0, scale="ratio", of={"batch_size": (1000,)},
                 to={"batch_size": (100,)}),
            "test accuracy with batch size 1000 against batch size 100: ratio above 5",
        ),
        (
            test("interaction", low=0.0, of={"optimizer": ("adam",)}, to={"optimizer": ("sgd",)}),
            "test accuracy per doubling of batch size, Adam against SGD: difference above 0",
        ),
        (test("argmax", chosen=(16, 48)), "test accuracy is highest at batch size 16 or 48"),
        (
            test("order", order=({"optimizer": ("sgd",)}, {"optimizer": ("adam", "rmsprop")})),
            "test accuracy rises from SGD to Adam and RMSprop",
        ),
        (
            test("exception", chosen=(18,), direction="falls"),
            "test accuracy at batch size 18 lies below the line between its neighbours",
        ),
    ],
)  # fmt: skip
def test_what_is_tested_is_stated(one, words):
    assert claim_words.stated(one) == words


def test_the_cells_of_a_test_are_described():
    assert claim_words.cells({"epoch": (5,), "optimizer": ("sgd",)}) == "epoch 5, SGD"
    assert claim_words.cells({}) == ""


def test_a_difference_says_what_is_taken_from_what():
    sides = {"of": {"batch_size": (4,)}, "to": {"batch_size": (64,)}}
    one = test("comparison", high=-0.1, **sides)
    assert claim_words.effect(one) == "difference (batch size 4 minus batch size 64)"
    assert claim_words.effect(test("comparison", low=1.0, scale="ratio", **sides)) == "ratio"
    assert claim_words.effect(test("order")) == "smallest difference"
