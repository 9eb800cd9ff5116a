"""The command line: its help, invalid words, hostile files; and the stages of `decide`."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

import run
from batchscope.cli import entry
from batchscope.core import disk
from batchscope.store import interims, paths, progress
from project import forked, start
from small_study import config

RUN = "digits-1f0a93c2+small_cnn+bs=8+lr=0.1+opt=sgd+ep=1+seed=0"


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("c.yaml").write_text(yaml.safe_dump(config()))


def refused(*words: str) -> str:
    with pytest.raises(SystemExit) as raised:
        entry.main([*words])
    return str(raised.value)


def test_help_lists_the_commands_of_users(capsys):
    assert refused() == refused("--help") == refused("train", "--help") == "0"
    words = {*capsys.readouterr().out.partition("usage: python workflow/run.py train")[0].split()}
    assert {"plan", "watch", "advice", "explain", "results"} <= words
    assert not {"tabulate", "train", "sharpness"} & words


@pytest.mark.parametrize(
    ("words", "place"),
    [
        ("plan --config scale=half", "argument --config: invalid choice: 'half'"),
        ("train --chunk-steps x --run a", "argument --chunk-steps: invalid int value: 'x'"),
        ("train", "the following arguments are required: --run"),
    ],
)
def test_a_word_that_an_option_does_not_take(words, place, capsys):
    assert refused(*words.split()) == "2"
    assert place in capsys.readouterr().err
    assert os.listdir() == ["c.yaml"]


def test_options_of_a_step_follow_its_signature():
    options = vars(entry.parser().parse_args(["train", "--run", RUN, "--model-file"]))
    assert (options["run"], options["model_file"]) == (RUN, None)
    assert (options["chunk_seconds"], options["results"]) == (5.0, Path("results"))
    words = ["report", "--config", "c.yaml", "--output", "o", "--partial"]
    assert entry.parser().parse_args(words).partial is True
    assert entry.parser().parse_args(["sharpness", "--run", RUN, "--output", "o"]).other is None


def test_a_reader_that_is_gone_ends_a_command_quietly():
    """By the error and not by the signal, which a process of its own that died would send too."""
    reader, writer = os.pipe()
    os.close(reader)
    code = "from batchscope.cli import entry; entry.main(['explain'])"
    process = start("-c", code, stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert (process.communicate(timeout=60)[1], process.returncode) == ("", 1)


def test_a_command_may_have_no_stdout(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)  # as Python does after `>&-`
    entry.main(["explain", "batch_size"])


def test_a_pipe_is_not_read():
    os.mkfifo("pipe")
    assert refused("plan", "--configfile", "pipe").startswith("pipe: ")


def test_a_file_or_a_broken_link_in_place_of_the_results():
    Path("results").symlink_to("file")
    assert refused("watch", "--once").startswith("results: received a broken link; ")
    Path("file").touch()
    assert refused("watch", "--once").startswith("results: received a file; ")


def test_a_measure_without_data_has_one_thread_and_is_listed_while_it_runs(monkeypatch):
    from batchscope.measures import measure_job

    environment, running = {}, []
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Prescott")
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "7")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setattr(measure_job, "FinishedRun", lambda *_: None)

    def write(measure, runs, settings, output):
        environment.update(os.environ)
        running.extend(progress.running_jobs("results"))
        disk.write_json(output, {"status": "diverged"})

    monkeypatch.setattr(measure_job, "write", write)
    entry.main(["weight_distance", "--run", RUN, "--output", "o"])
    assert "OPENBLAS_CORETYPE" not in environment and environment["OPENBLAS_NUM_THREADS"] == "1"
    assert [(job.step, job.name) for job in running] == [("weight_distance", RUN)]
    assert not progress.running_jobs("results")


MODELS = {
    "exits": "import os\ndef build(shape, classes):\n    os._exit(0)\n",
    "fails": "def build(shape, classes):\n    raise ValueError('no')\n",
}
CHECK = """
import os, sys
from batchscope.cli import entry
os.chdir(sys.argv[1])
entry.main(["check", "--config", "c.yaml"])
"""


@pytest.mark.slow
def test_every_model_is_built_in_its_own_process():
    for name, text in MODELS.items():
        Path(f"{name}.py").write_text(text)
    study = config(
        models={name: f"{name}.py" for name in MODELS},
        experiment={"vary": {"batch_size": [8], "model": [*MODELS]}},
    )
    Path("c.yaml").write_text(yaml.safe_dump(study))
    done = forked(CHECK, os.getcwd())
    assert done.returncode == 1
    lines = [line.partition(":")[0] for line in done.stderr.splitlines()]
    assert lines == ["exits.py", "fails.py"]


COLUMNS = ("experiment", "planned", "seeds_to_resolve", "seeds", "runs")


@pytest.fixture
def snakemake(tmp_path, monkeypatch):
    """Commands that were run; each writes the next interim analysis, the third leaves none open."""
    monkeypatch.chdir(tmp_path)
    seeds = {"until": "decided", "at_most": 28}
    study = config(experiment={"seeds": seeds})
    Path("study.yaml").write_text(yaml.safe_dump(study))
    commands = []

    def make_stage(command):
        commands.append(command[1:])
        study = yaml.safe_load(Path("study.yaml").read_text())
        number = interims.current_number("results", "s")
        if "-n" not in command:
            path = paths.interim_table("results", "s", number)
            path.parent.mkdir(parents=True, exist_ok=True)
            cells = ("a", "28", "", "" if number >= len(study["experiments"]) + 2 else "9", "[]")
            disk.write_rows(path, COLUMNS, [dict(zip(COLUMNS, cells, strict=True))])
        status = 3 if "--fail" in command else 0

        def wait():
            if "--stop" in command:
                os.kill(os.getpid(), signal.SIGINT)
            return status

        return SimpleNamespace(wait=wait, returncode=status, send_signal=commands.append)

    monkeypatch.setattr(subprocess, "Popen", make_stage)
    return commands


def test_the_command_is_repeated_until_nothing_is_open(snakemake):
    options = ["--cores", "2", "--configfile", "study.yaml", "--config", "partial=false"]
    run.main(["decide", *options])
    assert snakemake == [["-m", "snakemake", *options]] * 3
    run.main(["decide", *options])
    assert len(snakemake) == 4
    # The last analysis is made again with the statements of a new experiment, which are open.
    study = yaml.safe_load(Path("study.yaml").read_text())
    study["experiments"]["b"] = study["experiments"]["a"]
    Path("study.yaml").write_text(yaml.safe_dump(study))
    run.main(["decide", *options])
    assert len(snakemake) == 6


@pytest.mark.parametrize(("option", "status"), [("--fail", 3), ("-n", "no interim analysis")])
def test_a_command_that_makes_no_stage_is_not_repeated(snakemake, option, status):
    with pytest.raises(SystemExit) as end:
        run.main(["decide", option, "--configfile", "study.yaml"])
    assert len(snakemake) == 1
    assert end.value.code == status or status in str(end.value.code)


def test_a_signal_is_passed_on_to_snakemake_which_ends_the_jobs(snakemake):
    run.main(["decide", "--stop", "--cores", "2", "--configfile", "c.yaml"])
    assert snakemake[1:] == [signal.SIGINT]


def test_a_study_without_stages_is_run_once(snakemake):
    Path("config.yaml").write_text(yaml.safe_dump(config()))
    run.main(["decide", "--cores", "2"])
    assert snakemake == [["-m", "snakemake", "--cores", "2"]]
