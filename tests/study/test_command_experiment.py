"""Experiments whose runs a command makes: their grid, placeholders, digests and refusals."""

import re
import shlex
from pathlib import Path

import pytest
import yaml

import commanded
import small_study
from batchscope import figures
from batchscope.cli import plan
from batchscope.study import commands, config, model, planner


def names(folder, *words, **keys):
    return [*commanded.planned(folder, *words, **keys).commands]


def problems(folder, *words, **keys):
    return small_study.problems(commanded.study(folder, *words, **keys), folder=folder)


def test_a_script_that_is_no_input_is_told(tmp_path):
    code = f"{'pass; ' * 50}open('x.py')"  # no path, as it is longer than any
    raw = commanded.study(tmp_path, code[:-2], inputs=None, seeds=6)
    study = planner.make(raw, folder=tmp_path)
    (warning,) = study.warnings
    assert warning.startswith("experiments.a.inputs: ") and "[script.py]" in warning
    for inputs in (["script.py"], ["."], ["./script.py"]):
        raw["experiments"]["a"]["inputs"] = inputs
        assert not planner.make(raw, folder=tmp_path).warnings


def test_what_plan_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    raw = commanded.study(tmp_path / "mine of it", "x={x}", set={"x": "a b"}, seeds=2)
    path = tmp_path / "mine of it" / "study.yaml"
    path.write_text(yaml.safe_dump(raw))
    name = [*config.study(path).commands][0]
    results = tmp_path / "results"
    text = plan.text(plan.study(path, "full", results), results)
    files = tmp_path / "results" / "runs" / name / "files"
    words = ["python", "script.py", "bs=8", "seed=0", f"out={files}", "x=a b"]
    assert f"a, first run: {shlex.join(words)}\n" in text and "6 missing" in text


def commanded_warnings(raw, folder):
    warnings = planner.make(raw, folder=folder).warnings
    return [line for line in warnings if line.startswith("experiments.a.command: ")]


def test_a_missing_program_is_a_warning_before_any_run(tmp_path):
    command = ["./no-program", "{batch_size}", "{seed}", "{run_dir}"]
    raw = commanded.study(tmp_path, command=command)
    (warning,) = commanded_warnings(raw, tmp_path)
    assert "received './no-program'" in warning
    (tmp_path / "no-program").write_text("#!/bin/sh\n")
    (tmp_path / "no-program").chmod(0o755)
    assert commanded_warnings(raw, tmp_path) == []


def test_every_factor_is_in_the_words_and_in_the_name(tmp_path):
    cases = [{"width": 64, "optimizer": "AdamW"}, {"width": 128, "optimizer": "muon"}]
    vary = {"learning_rate": [1e-3, 0.1], "batch_size": [32]}
    words = ("lr={learning_rate}", "w={width}", "{optimizer}", "{{{seed}}}", "th={threads}{gpus}")
    keys = {"cases": cases, "vary": vary, "seeds": [3], "resources": {"threads": 4}}
    planned = commanded.planned(tmp_path, *words, **keys)
    token, _, rest = [*planned.commands][0].partition("+")
    assert re.fullmatch("command-[0-9a-f]{8}", token)
    assert rest == f"bs=32+lr=0.001+opt=adamw-{model.digest('AdamW')}+width=64+seed=3"
    run = planned.commands[f"{token}+bs=32+lr=0.1+opt=muon+width=128+seed=3"]
    expected = ["python", "script.py", "bs=32", "seed=3", "out=/run"]
    expected += ["lr=0.1", "w=128", "muon", "{3}", "th=40"]
    assert run.resolved("/run") == (expected, {})
    assert planned.vary == {"learning_rate": (0.001, 0.1), "batch_size": (32,)}
    assert len(planned.commands) == 4 and planned.seeds == (3,)


def test_a_text_is_split_without_a_shell_and_a_flag_may_be_empty(tmp_path):
    text = """bash -c 'echo "$HOME; {batch_size}" > x' --seed {seed} {flag} n={nesterov}"""
    keys = {"env": {"WIDTH": "{width}", "FIXED": 3}, "set": {"width": 5}, "inputs": None}
    vary = {"batch_size": [8], "flag": ["", "--fast"], "nesterov": [True, False]}
    planned = commanded.planned(tmp_path, command=text, vary=vary, log=None, **keys)
    start = ["bash", "-c", 'echo "$HOME; 8" > x', "--seed", "0"]
    ends = (["n=true"], ["n=false"], ["--fast", "n=true"], ["--fast", "n=false"])
    assert [run.resolved("/run") for run in planned.commands.values()] == [
        ([*start, *end], {"WIDTH": "5", "FIXED": "3"}) for end in ends
    ]


def test_the_reduced_form_may_have_any_factor_and_defaults_give_those_of_placeholders(tmp_path):
    raw = commanded.study(tmp_path, "w={width}", "lr={learning_rate}", set={"width": 1})
    raw["defaults"] = {"learning_rate": 0.3, "dataset": "digits", "model": "small_cnn"}
    reduced = {"vary": {"batch_size": [8], "width": [9]}, "set": None}
    raw["reduced"] = {"experiments": {"a": reduced}}
    (name,) = planner.make(raw, "reduced", folder=tmp_path).experiments["a"].commands
    assert name.endswith("+bs=8+lr=0.3+width=9+seed=0")


def test_every_change_that_may_change_a_number_changes_the_names(tmp_path):
    """Nothing else does: neither order, nor resources, nor files that are hidden."""
    data = tmp_path / "data"
    (data / "deep").mkdir(parents=True)
    (data / "deep" / "a.txt").write_text("a")
    (tmp_path / "real").mkdir()
    (data / "link").symlink_to(tmp_path / "real")
    keys = {"inputs": ["script.py", "data"], "resources": {"threads": 2}}
    before = names(tmp_path, **keys)
    same = (
        {"inputs": ["data", "script.py"]},
        {"resources": {"threads": 3, "mem_mb": 9}, "resume": True},
        {"vary": {"batch_size": [128, 32, 8]}},
        {"title": "Another", "margins": {"test_accuracy": 0.1}},
    )
    for change in same:
        assert {*names(tmp_path, **{**keys, **change})} == {*before}
    (data / ".hidden").write_text("h")
    (data / "__pycache__").mkdir()
    (data / "__pycache__" / "a.pyc").write_text("c")
    assert names(tmp_path, **keys) == before
    others = [
        names(tmp_path, "more", **keys),
        names(tmp_path, **keys, env={"A": "1"}),
        names(tmp_path, **keys, alone=True),
        names(tmp_path, **keys, log={**commanded.LOG, "examples_per_epoch": 9}),
        names(tmp_path, inputs=["script.py"]),
        names(tmp_path, "t={threads}", **keys),
        names(tmp_path, "t={threads}", **{**keys, "resources": {"threads": 3}}),
    ]
    changes = {"data/deep/b.txt": "b", "data/deep/a.txt": "A", "script.py": "another"}
    changes |= {"real/c.txt": "c"}  # behind a link
    for file, text in changes.items():
        (tmp_path / file).write_text(text)
        others.append(names(tmp_path, **keys))
    tokens = [found[0].partition("+")[0] for found in (before, *others)]
    assert len({*tokens}) == len(tokens)


def test_a_text_has_a_short_name_and_many_factors_are_too_long(tmp_path):
    many = {f"a_rather_long_name_{at}": [1] for at in range(12)}
    words = [f"{{{name}}}" for name in many]
    (problem,) = problems(tmp_path, *words, vary={"batch_size": [8], **many})
    assert problem.startswith("experiments.a: ") and " 200 characters" in problem
    (name,) = names(tmp_path, "{note}", set={"note": "x" * 400}, vary={"batch_size": [8]})
    assert len(name) < 100


def test_two_runs_with_the_same_command_are_refused(tmp_path):
    vary = {"batch_size": [8], "a": [1, 11], "b": [1, 11]}
    (problem,) = problems(tmp_path, "{a}{b}", vary=vary)
    assert problem.startswith("experiments.a.command: ")
    assert "+a=1+b=11+" in problem and "+a=11+b=1+" in problem
    (problem,) = problems(tmp_path, cases=[{"batch_size": 8}, {"batch_size": 8}], vary={})
    assert problem.startswith("experiments.a.command: ")


def test_figures_and_budgets_of_seconds_need_an_exclusive_machine(tmp_path):
    keys = {"vary": {"batch_size": [8, 32, 128]}, "budgets": {"seconds": 5}}
    (problem,) = problems(tmp_path, **keys)
    assert problem.startswith("experiments.a.budgets.seconds: ") and "alone: true" in problem
    assert "fastest_batch_size" in figures.figure_names(
        commanded.planned(tmp_path, **keys, alone=True)
    )
    assert "fastest_batch_size" not in figures.figure_names(commanded.planned(tmp_path))


@pytest.mark.parametrize("inputs", [".", "{linked}"])
def test_results_and_logs_are_no_input(inputs, tmp_path, monkeypatch):
    project, linked = tmp_path / "project", tmp_path / "linked"
    (project / "mine").mkdir(parents=True)
    linked.symlink_to(project)
    monkeypatch.chdir(project)
    path = Path(inputs.format(linked=linked))
    first = commands.sha256(path)
    for file in ("results/record.json", "logs/a.log", ".snakemake/log/a.log"):
        Path(file).parent.mkdir(parents=True)
        Path(file).touch()
    assert commands.sha256(path) == first
    Path("mine/results").mkdir()
    Path("mine/results/a.csv").touch()
    assert commands.sha256(path) != first


def test_no_pattern_is_suggested(tmp_path):
    assert not problems(tmp_path, log={"file": "{run_dir}/"})[0].endswith("?")


def test_a_folder_that_contains_the_project_is_refused(tmp_path, monkeypatch):
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    for folder in ("..", "/"):
        (problem,) = problems(project, inputs=[folder])
        assert problem.startswith("experiments.a.inputs[0]: ") and "project's folder" in problem
