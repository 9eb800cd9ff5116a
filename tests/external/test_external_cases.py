"""Small logs that were once misread: each gives its right answer, or one question."""

from pathlib import Path

import numpy as np
import pandas
import pytest

import run
from batchscope.cli import plan
from batchscope.errors import UserError
from batchscope.external import log_runs
from batchscope.study import config
from batchscope.study.log_source import Source
from batchscope.tables import experiment_tables

CASES = Path(__file__).resolve().parents[1] / "data" / "external"


def read(name, **more):
    return log_runs.read(Source((name,), **more), CASES)


def tables(folder, name):
    """Returns the tables of an experiment of a case."""
    path = folder / "mine.yaml"
    path.write_text(f"study: mine\nexperiments:\n  a: {{runs: '{CASES / name}'}}\n")
    return experiment_tables.make(folder / "results", config.study(path), "a")


def by_size(rows, outcome, column="mean"):
    own = rows[rows["outcome"] == outcome]
    return dict(zip(own["batch_size"], own[column], strict=True))


def test_two_machines_stand_side_by_side(tmp_path):
    made = tables(tmp_path, "machine_column.csv")
    assert set(made["runs"]["own_machine"]) == {"M1", "V100"} and len(made["runs"]) == 6
    ends = made["comparisons"][made["comparisons"]["budget"] == "convergence"]
    found = ends.groupby("own_machine")["mean"].agg(set)
    assert found["M1"] == {0.5} and found["V100"] == {0.3}


def test_rows_at_an_equal_budget_beside_one_out_of_memory(tmp_path):
    made = tables(tmp_path, "oom_row.csv")
    rows = made["comparisons"]
    assert set(rows["budget"]) == {"examples"} and set(rows["budget_value"]) == {75000}
    seconds = by_size(rows, "seconds")
    assert min(seconds, key=seconds.get) == 32
    assert seconds[256] / seconds[16] == pytest.approx(3.85, abs=0.01)
    assert by_size(rows, "seconds", "reason")[512] == "failed"
    assert by_size(rows, "train_loss")[16] == 0.255
    assert made["critical_batch_size"].empty and set(made["runs"]["stop_reason"]) == {"budget"}
    best = made["advice"].iloc[0]
    assert (best["item"], best["batch_size"], best["grade"]) == ("recommendation", 32, "open")


def test_epochs_and_tokens_are_equal_up_to_the_last_batches(tmp_path):
    ceil = tables(tmp_path, "epoch_budget_ceil.csv")
    assert set(ceil["comparisons"]["budget"]) == {"examples"} and ceil["critical_batch_size"].empty
    made = tables(tmp_path, "token_budget.csv")["comparisons"]
    losses, rates = (by_size(made, "validation_loss", each) for each in ("mean", "learning_rate"))
    best = min(losses, key=losses.get)
    assert (best, losses[best], rates[best]) == (1024, 2.342, 0.007812)


def test_a_budget_is_that_of_a_series(tmp_path):
    made = tables(tmp_path, "two_budgets.csv")
    found = made["comparisons"].groupby("model")["budget_value"].agg(set)
    assert found["small"] == {1e6} and found["large"] == {3e6}
    assert made["critical_batch_size"].empty


def test_a_loss_that_is_empty_to_the_end_is_asked_about_and_nan_is_divergence(tmp_path):
    with pytest.raises(UserError) as error:
        read("diverged_written_by_pandas.csv")
    assert str(error.value).count("is expected") == 1
    assert "line 9, validation_loss: received nothing of batch size 1024" in str(error.value)
    text = (CASES / "diverged_written_by_pandas.csv").read_text()
    for name, end in (("nan.csv", ",nan\n"), ("stated.csv", ",\n")):
        lines = text.replace(",\n", end).splitlines()
        if name == "stated.csv":
            lines = [lines[0] + ",status", *(f"{line}," for line in lines[1:])]
            lines[-1] += "diverged"
        (tmp_path / name).write_text("\n".join(lines) + "\n")
        found = log_runs.read(Source((str(tmp_path / name),))).rows
        assert set(found.loc[found["batch_size"] == 1024, "status"]) == {"diverged"}
        assert set(found.loc[found["batch_size"] < 1024, "status"]) == {"finished"}


@pytest.mark.parametrize("name", ["hf_learning_rate.csv", "plateau_learning_rate.csv"])
def test_a_rate_that_changes_within_a_training_is_no_factor(name):
    found = read(name)
    assert found.factors == () and found.rates == () and found.rows["run"].nunique() == 3
    assert any("learning_rate" in note for note in found.notes)


def test_epochs_from_zero_have_used_one_more(tmp_path):
    found = read("keras_epoch_zero.csv")
    assert (found.rows["examples"] == 1400 * found.rows["epoch"]).all()
    assert found.rows["epoch"].min() == 1 and any("from 0" in note for note in found.notes)
    # Where the losses at 0 are those of untrained weights, nothing was used by then.
    rows = pandas.read_csv(CASES / "keras_epoch_zero.csv")
    rows["validation_loss"] = rows["validation_loss"].mask(rows["epoch"] == 0, 2.3)
    rows.to_csv(tmp_path / "untrained.csv", index=False)
    assert log_runs.read(Source((str(tmp_path / "untrained.csv"),))).rows["epoch"].min() == 0
    # What the user states is left as it is.
    stated = read("keras_epoch_zero.csv", columns=(("examples", "examples"),))
    assert stated.rows["examples"].min() == 0


def test_the_loss_of_keras_is_the_training_loss():
    found = read("keras_loss.csv")
    assert found.rows["train_loss"].max() == 2.24 and found.factors == ()


def test_replicates_that_equal_another_to_the_last_bit_are_refused(tmp_path):
    with pytest.raises(UserError, match="line 11: received batch size 16, seed 1 with the very"):
        read("identical_seeds.csv")
    rows = pandas.read_csv(CASES / "identical_seeds.csv")
    rows["validation_loss"] += 1e-6 * rows["seed"]
    rows.to_csv(tmp_path / "others.csv", index=False)
    assert log_runs.read(Source((str(tmp_path / "others.csv"),))).rows["seed"].nunique() == 6


def test_a_download_without_a_tag_is_asked_about():
    with pytest.raises(UserError, match="not in the columns Wall time, Step and Value"):
        read("tb_nan_bs{batch_size}_seed{seed}.csv")
    with pytest.raises(UserError, match="batch_size: received 64; at least 3"):
        read("tb_nan_bs{batch_size}_seed{seed}.csv", columns=(("validation_loss", "Value"),))


def write(folder, name, rows):
    frame = pandas.DataFrame(rows)
    frame.to_csv(folder / name, index=False)
    return log_runs.read(Source((name,)), folder)


def trajectories(**more):
    """Returns rows of trainings at three sizes with two seeds, without a column of their own."""
    rng = np.random.default_rng(0)
    return [
        {"batch_size": size, "seed": seed, "updates": 10 * step}
        | {"validation_loss": 2 / step + size / 100 + rng.uniform(0, 0.01)}
        | {name: of(size, seed, step) for name, of in more.items()}
        for size in (8, 16, 32)
        for seed in (0, 1)
        for step in range(1, 9)
    ]


def test_what_changes_within_a_training_is_no_factor_and_what_is_crossed_is_one(tmp_path):
    def cosine(size, seed, step):
        return round(0.1 * min(step / 3, 1) * (1 - step / 9), 3)  # rises and falls

    rows = trajectories(lr=cosine, norm=lambda *at: hash(at) % 1000 / 7, day=lambda *at: 3)
    assert write(tmp_path, "one.csv", rows).factors == ("own_day",)
    crossed = [{**row, "width": width} for width in (16, 64) for row in rows]
    for row in crossed:
        row["validation_loss"] += row["width"] / 1000
    found = write(tmp_path, "crossed.csv", crossed)
    assert found.distinguishing == ["own_width"] and len(found.series) == 2
    tried = [{**row, "lr": row["width"] / 100} for row in crossed]
    tried = [{name: row[name] for name in row if name != "width"} for row in tried]
    assert write(tmp_path, "tried.csv", tried).rates == (0.16, 0.64)


def test_trainings_without_a_seed_are_one_of_each_size_or_a_question(tmp_path):
    rows = [row for row in trajectories() if row.pop("seed") == 0]
    found = write(tmp_path, "one.csv", rows)
    assert set(found.rows["seed"]) == {0} and any("no seed" in note for note in found.notes)
    numbered = [{**row, "run": number} for row in rows for number in (3, 4)]
    for row in numbered:
        row["validation_loss"] += row["run"] / 100
    with pytest.raises(UserError, match="no seed: .*`columns: {seed: run}`"):
        write(tmp_path, "run.csv", numbered)
    named = log_runs.read(Source(("run.csv",), columns=(("seed", "run"),)), tmp_path)
    assert set(named.rows["seed"]) == {3, 4}


def test_an_empty_last_row_changes_nothing(tmp_path):
    rows = trajectories(status=lambda *at: "")
    more = [{"batch_size": 64, "seed": 0, "status": "out_of_memory"}]
    more += [{"batch_size": 32, "seed": 1, "status": "oom"}]
    found = write(tmp_path, "oom.csv", rows + more).rows
    failed = found[found["status"] == "out_of_memory"]
    assert set(zip(failed["batch_size"], failed["seed"], strict=True)) == {(64, 0), (32, 1)}
    assert len(found) == len(rows) + 1 and (found["status"] == "finished").sum() == 40


@pytest.mark.parametrize(
    ("column", "cell", "place"),
    [
        ("model", "a\x1b[31mred", "line 2, model: received 'a\\x1b[31mred'"),
        ("mo\x1bdel", "a", "received the column 'mo\\x1bdel'"),
    ],
)
def test_control_characters_reach_no_page_and_no_terminal(tmp_path, column, cell, place):
    with pytest.raises(UserError) as error:
        write(tmp_path, "own.csv", [{**row, column: cell} for row in trajectories()])
    assert place in str(error.value)
    assert all(line.isprintable() for line in str(error.value).splitlines())


def test_logs_of_one_training_each_take_factors_from_paths_and_parameters(tmp_path):
    frame = pandas.DataFrame(trajectories())
    for (size, seed), rows in frame.groupby(["batch_size", "seed"]):
        for width in (16, 64):
            folder = tmp_path / "logs" / f"bs{size}_w{width}"
            folder.mkdir(parents=True, exist_ok=True)
            rows = rows.assign(epoch=0, loss=rows["validation_loss"] + width)
            named = rows.rename(columns={"updates": "step", "validation_loss": "val/loss"})
            text = named[["epoch", "loss", "step", "val/loss"]].to_csv(index=False)
            (folder / str(seed)).mkdir()
            (folder / str(seed) / "metrics.csv").write_text(text)
            text = f"seed: {seed}\nlr: {size / 100}\nwidth: {width}\nout: {folder}/{seed}\n"
            (folder / str(seed) / "hparams.yaml").write_text(text)
    found = log_runs.read(Source(("logs/bs{bs}_w*/*/metrics.csv",)), tmp_path)
    assert set(found.factors) == {"learning_rate", "own_width"} and len(found.series) == 2
    assert found.rows["run"].nunique() == 12 and set(found.rows["updates"]) >= {11, 81}
    assert any(" out" in note for note in found.notes)
    with pytest.raises(UserError, match="received batch size 16, seed 0 again.*differ in .*width"):
        for path in (tmp_path / "logs").rglob("hparams.yaml"):
            if "bs8_" not in str(path):
                path.write_text(path.read_text().replace("width: 64", "wide: 64"))
        log_runs.read(Source(("logs/bs{bs}_w*/*/metrics.csv",)), tmp_path)


def test_the_import_is_read_as_the_logs_are_and_says_what_it_took(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("signal.signal", lambda *_: None)
    for name in ("machine_column.csv", "keras_epoch_zero.csv", "token_budget.csv", "oom_row.csv"):
        run.main(["import", str(CASES / name), "-o", str(tmp_path / name)])
        assert f"{tmp_path / name}: " in capsys.readouterr().out
        before, after = read(name), log_runs.read(Source((str(tmp_path / name),)))
        assert [*after.factors] == [*before.factors] and after.at_targets == before.at_targets
        names = [each for each in before.rows if each not in ("run", "order")]
        pandas.testing.assert_frame_equal(
            after.rows[names].reset_index(drop=True), before.rows[names].reset_index(drop=True)
        )
    given = ["--pattern", "bs{batch_size}.csv", "--columns", "validation_loss=err"]
    for size in (8, 16, 32):
        text = f"epoch,err\n1,0.{size}\n2,0.0{size}\n"
        (tmp_path / f"bs{size}.csv").write_text(text)
    words = ["import", *map(str, tmp_path.glob("bs*.csv")), "-o", str(tmp_path / "all.csv"), *given]
    run.main([*words, "--examples-per-epoch", "96"])
    assert "Note: no seed" in capsys.readouterr().out
    made = pandas.read_csv(tmp_path / "all.csv")
    assert made["examples"].tolist() == [96, 192] * 3 and made["epoch"].tolist() == [1, 2] * 3
    with pytest.raises(SystemExit, match="--columns: received 'err'"):
        run.main([*words[:-1], "err"])


def test_a_study_of_logs_says_what_they_are_and_what_is_not_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for size in (8, 16, 32):
        text = "epoch,loss,val_loss\n0,1.0,0.9\n1,0.8,0.7\n"
        (tmp_path / f"bs{size}.csv").write_text(text)
    body = "{files: 'bs{batch_size}.csv', examples_per_epoch: 64}"
    Path("mine.yaml").write_text(f"study: mine\nexperiments:\n  a: {{runs: {body}}}\n")
    (experiment,) = config.study("mine.yaml").experiments.values()
    assert experiment.own.files == ("bs16.csv", "bs32.csv", "bs8.csv")
    assert len(experiment.own.sha256) == 64
    results = tmp_path / "results"
    text = plan.text(plan.study("mine.yaml", "full", results), results)
    assert "bs{batch_size}.csv" in text and "Keras" in text and "no seed" in text
    wrong = "{files: 'bs{size}x.csv', format: keros, examples_per_epoch: 0, column: {a: b}}"
    Path("wrong.yaml").write_text(f"study: mine\nexperiments:\n  a: {{runs: {wrong}}}\n")
    with pytest.raises(UserError) as error:
        config.study("wrong.yaml")
    lines = str(error.value).splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        f"experiments.a.runs.{key}" for key in ("column", "examples_per_epoch", "format")
    ]
    assert "'columns'" in lines[0] and "'keros'" in lines[2]


def written(folder, logs):
    for name, text in logs.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def test_logs_of_runs_that_ended_before_any_evaluation_are_told(tmp_path):
    row = '{{"step": {}, "val_loss": 0.5, "train_loss": 0.5}}'
    good = "\n".join(row.format(step) for step in (10, 20))
    logs = {f"bs{size}_seed{seed}.jsonl": good for size in (8, 16, 32) for seed in (0, 1)}
    for at, name in enumerate(logs):
        logs[name] = logs[name].replace("0.5", f"0.5{at + 1}")
    logs["bs32_seed1.jsonl"] = '{"step": 10, "grad_norm": 1.0}\n{"step": 20, "grad_norm": 1.0}'
    written(tmp_path, logs)
    runs = log_runs.read(Source(("bs{batch_size}_seed{seed}.jsonl",)), tmp_path)
    assert any("bs32_seed1.jsonl" in note for note in runs.notes)
    assert runs.rows["run"].nunique() == 5


def test_a_path_and_a_column_that_contradict_each_other(tmp_path):
    written(tmp_path, {"bs8_seed0.csv": "step,batch_size,val_loss\n10,32,0.5\n"})
    with pytest.raises(UserError, match="bs8_seed0.csv: received the batch size 8 by the path"):
        log_runs.read(Source(("bs{batch_size}_seed{seed}.csv",)), tmp_path)


@pytest.mark.parametrize(
    ("sizes", "updates"),
    [((800, 900, 990), 2), ((600, 700, 800), 1), ((2048, 3000, 4000), 1)],
)
def test_epochs_of_few_batches_are_no_contradiction(sizes, updates, tmp_path):
    """The last batch is kept, or left out, or there is one that is smaller than it should be."""
    for size in sizes:
        rows = [f"{updates * epoch},{epoch},{size / 1e4 + 1 / epoch}" for epoch in range(1, 11)]
        text = "\n".join(["step,epoch,val_loss", *rows])
        written(tmp_path, {f"bs{size}_seed0.csv": text})
    source = Source(("bs{batch_size}_seed{seed}.csv",), examples_per_epoch=1000)
    assert len(log_runs.read(source, tmp_path).rows) == 30


def test_logs_by_epochs_alone_may_have_batches_of_more_than_all_examples(tmp_path):
    """They make one update an epoch, which no number of examples contradicts."""
    for size in (64, 256, 4096):
        rows = [f"{epoch},{size / 1e4 + 1 / epoch}" for epoch in range(1, 4)]
        written(tmp_path, {f"bs{size}_seed0.csv": "\n".join(["epoch,val_loss", *rows])})
    source = Source(("bs{batch_size}_seed{seed}.csv",), examples_per_epoch=1087)
    found = log_runs.read(source, tmp_path).rows
    updates = found[found["epoch"] == 2].set_index("batch_size")["updates"]
    assert updates.to_dict() == {64: 34, 256: 10, 4096: 2}


def test_a_path_and_a_column_that_agree_may_be_written_otherwise(tmp_path):
    for size in (8, 16, 32):
        rows = [f"{step},{size}.0,{size / 1e3 + 1 / step}" for step in (10, 20)]
        written(tmp_path, {f"bs{size}_seed0.csv": "\n".join(["step,batch_size,val_loss", *rows])})
    source = Source(("bs{batch_size}_seed{seed}.csv",))
    assert set(log_runs.read(source, tmp_path).rows["batch_size"]) == {8, 16, 32}


def test_epochs_tell_that_batch_sizes_are_those_of_one_device(tmp_path):
    text = "step,epoch,val_loss\n50,1.0,0.9\n100,2.0,0.8\n"
    written(tmp_path, {f"bs{size}_seed0.csv": text for size in (8, 16, 32)})
    with pytest.raises(UserError, match="bs8_seed0.csv, line 3, epoch: received 2, but 100"):
        log_runs.read(Source(("bs{batch_size}_seed{seed}.csv",), examples_per_epoch=3200), tmp_path)
