"""Kubernetes, PBS and Apptainer: whole studies, on programs that stand for theirs and run here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import project

# Stand for kubectl, qsub, qstat and qdel: jobs run here, and note in files how they ended.
KUBECTL = """\
#!{python}
import json, os, subprocess, sys
jobs = {jobs!r}
words = sys.argv[1:]
if words[:1] == ["create"]:
    made = json.load(sys.stdin)
    name = made["metadata"]["name"]
    with open(f"{{jobs}}/{{name}}.json", "w") as file:
        json.dump(made, file)
    (container,) = made["spec"]["template"]["spec"]["containers"]
    # In a pod the script is the first process, and its signal reaches all others.
    command = ["/bin/sh", "-c", '"$@"; echo $? > ' + f"{{jobs}}/{{name}}.end", "sh"]
    subprocess.Popen(
        [*command, *container["command"]], cwd=container["workingDir"], start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    print(f"job.batch/{{name}} created")
elif words[:2] == ["get", "job"]:
    if not os.path.exists(f"{{jobs}}/{{words[2]}}.json"):
        sys.exit(0)
    conditions = []
    if os.path.exists(f"{{jobs}}/{{words[2]}}.end"):
        ended = open(f"{{jobs}}/{{words[2]}}.end").read().strip()
        kind = "Complete" if ended == "0" else "Failed"
        conditions = [{{"type": kind, "status": "True"}}] if ended else []
    print(json.dumps({{"status": {{"conditions": conditions}}}}))
else:
    open(f"{{jobs}}/deleted", "a").write(" ".join(words) + "\\n")
"""
QSUB = """\
#!/bin/sh
number=$(ls {jobs} | wc -l).server
printf '%s\\n' "$@" > {jobs}/$number
for script; do :; done
touch {jobs}/$number.runs
( script=$PWD/$script; cd /; PBS_JOBID=$number; export PBS_JOBID
  sh "$script"; rm {jobs}/$number.runs ) > /dev/null 2>&1 < /dev/null &
echo $number
"""
QSTAT = """\
#!/bin/sh
test -e {jobs}/$1.runs && echo "$1 batchscope R" || {{ echo "Unknown Job Id $1" >&2; exit 153; }}
"""
APPTAINER = """\
#!/bin/sh
if test "$1" = --version; then echo apptainer version 1.3.4; exit 0; fi
printf '%s\\n' "$*" >> {jobs}/calls
while test "$1" != "$PWD/batchscope.sif" && test "$1" != batchscope.sif; do shift; done
shift; exec "$@"
"""
STUDY = {
    **project.TINY,
    "experiments": {
        "batch_size": {
            **project.TINY["experiments"]["batch_size"],
            "seeds": 1,
            "measure": {
                "evaluate": None,
                "time_epoch": {"blocks": 3, "block_seconds": 0.05},
            },
        }
    },
}


class Engine:
    """A project, and programs that stand for an engine's."""

    def __init__(self, folder: Path, **programs: str) -> None:
        self.root, self.jobs, self.bin = (folder / name for name in ("project", "jobs", "bin"))
        self.jobs.mkdir()
        self.bin.mkdir()
        for name, text in programs.items():
            path = self.bin / name
            path.write_text(text.format(python=sys.executable, jobs=str(self.jobs)))
            path.chmod(0o755)
        project.write_config(project.copy(self.root), STUDY)

    def snakemake(self, *arguments: str) -> str:
        path = (
            f"{self.bin}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        )
        done = subprocess.run(
            [sys.executable, "-m", "snakemake", *arguments],
            cwd=self.root,
            env={**os.environ, "PATH": path},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=500,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr


OFTEN = ("--seconds-between-status-checks", "1")


@pytest.mark.slow
def test_a_study_on_kubernetes(tmp_path):
    pytest.importorskip("snakemake_executor_plugin_cluster_generic")
    engine = Engine(tmp_path, kubectl=KUBECTL)
    engine.snakemake("--profile", "kubernetes", *OFTEN)
    assert "Does the whole pipeline run?" in project.report(engine.root)
    sent = [json.loads(path.read_text()) for path in sorted(engine.jobs.glob("*.json"))]
    # The runs, each on its own while no time is known, and their times.
    assert len(sent) == 3
    alone = [each for each in sent if each["metadata"]["labels"]["alone"] == "true"]
    assert len(alone) == 1
    for each in sent:
        pod = each["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        assert container["workingDir"] == str(engine.root)
        assert container["volumeMounts"][0]["name"] == pod["volumes"][0]["name"]
        (term,) = pod["affinity"]["podAntiAffinity"][
            "requiredDuringSchedulingIgnoredDuringExecution"
        ]
        avoided = term["labelSelector"]["matchLabels"]
        assert avoided == ({"app": "batchscope"} if each in alone else {**avoided, "alone": "true"})
        assert container["resources"]["requests"]["memory"].endswith("M")
        assert "nvidia.com/gpu" not in container["resources"]["limits"]


@pytest.mark.slow
def test_a_study_on_pbs(tmp_path):
    pytest.importorskip("snakemake_executor_plugin_cluster_generic")
    engine = Engine(tmp_path, qsub=QSUB, qstat=QSTAT)
    engine.snakemake("--profile", "pbs", *OFTEN)
    assert "Does the whole pipeline run?" in project.report(engine.root)
    asked = [path.read_text() for path in engine.jobs.iterdir() if path.suffix == ".server"]
    assert len(asked) == 3
    assert sorted("place=excl" in each for each in asked) == [False, False, True]
    assert all("ncpus=1:ngpus=0:mem=" in each and "walltime=" in each for each in asked)


@pytest.mark.slow
def test_each_job_in_the_image(tmp_path):
    engine = Engine(tmp_path, apptainer=APPTAINER)
    (engine.root / "batchscope.sif").touch()
    engine.snakemake("runs", "--cores", "2", "--sdm", "apptainer")
    calls = (engine.jobs / "calls").read_text().splitlines()
    assert sum("batchscope.sif" in call for call in calls) == 3  # the data, two runs
    assert len([*engine.root.glob("results/runs/*/record.json")]) == 2


def job(tmp_path: Path, *words: str, kubectl: str) -> subprocess.CompletedProcess:
    path = tmp_path / "kubectl"
    path.write_text(f"#!/bin/sh\n{kubectl}\n")
    path.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    command = [sys.executable, str(project.ROOT / "kubernetes" / "job.py"), *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([], "running"),
        ([{"type": "Complete", "status": "True"}], "success"),
        ([{"type": "Failed", "status": "True"}], "failed"),
        ([{"type": "Failed", "status": "False"}], "running"),
        (None, "failed"),  # it is no more
    ],
)
def test_how_a_job_of_kubernetes_stands(tmp_path, conditions, expected):
    said = "" if conditions is None else json.dumps({"status": {"conditions": conditions}})
    done = job(tmp_path, "status", "some", kubectl=f"echo '{said}'")
    assert done.stdout.strip() == expected
    assert job(tmp_path, "status", "some", kubectl="exit 1").stdout.strip() == "running"


def test_jobs_of_kubernetes_are_cancelled_by_name(tmp_path):
    done = job(tmp_path, "one", "two", kubectl=f'echo "$*" > {tmp_path}/asked')
    assert done.returncode == 0
    assert (tmp_path / "asked").read_text().split() == [
        *("delete", "job", "--wait=false", "one", "two")
    ]


def test_a_signal_reaches_what_a_pod_runs(tmp_path):
    """A pod's first process alone is signalled; it is in a namespace of its own, as here."""
    sys.path.insert(0, str(project.ROOT / "kubernetes"))
    import job as kubernetes_job

    sys.path.pop(0)
    # As Snakemake's: the shell dies of the signal, what it runs takes its time.
    training, script = tmp_path / "training", tmp_path / "script"
    training.write_text(
        f"trap 'sleep 2; touch {tmp_path}/saved; exit 85' TERM; touch {tmp_path}/started\n"
        "while :; do sleep 0.1; done\n"
    )
    script.write_text(f"cd / && sh {training} && exit 0 || exit 1\n")
    unshare = ["unshare", "--pid", "--fork", "--kill-child"]
    if subprocess.run([*unshare, "true"], capture_output=True).returncode:
        pytest.skip("no namespace of processes may be made here")
    text = kubernetes_job.RUN
    # The signal comes from outside of the namespace, as that of a node.
    process = subprocess.Popen([*unshare, "/bin/sh", "-c", text, "sh", str(script)])
    while not (tmp_path / "started").exists():
        assert process.poll() is None
    (first,) = subprocess.check_output(["pgrep", "-P", str(process.pid)], text=True).split()
    os.kill(int(first), 15)
    assert process.wait(30) != 0
    assert (tmp_path / "saved").exists()


@pytest.mark.parametrize(
    ("said", "ended", "expected"),
    [
        ("1.s name user 00:00:01 R", None, "running"),
        ("qstat: cannot connect to server", None, "running"),
        ("", None, "running"),
        ("1.s name user 00:00:01 R", "0", "success"),
        ("1.s name user 00:00:01 R", "85", "failed"),
        ("qstat: Unknown Job Id 1.s", "0", "success"),
        ("qstat: Unknown Job Id 1.s", None, "failed"),
        ("qstat: 1.s Job has finished, use -x or -H", None, "failed"),
    ],
)
def test_how_a_job_of_pbs_stands(tmp_path, said, ended, expected):
    path = tmp_path / "qstat"
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{said}\nEND\nexit 1\n")
    path.chmod(0o755)
    (tmp_path / "logs" / "pbs").mkdir(parents=True)
    if ended is not None:
        (tmp_path / "logs" / "pbs" / "1.s.ended").write_text(f"{ended}\n")
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        [project.ROOT / "pbs" / "status", "1.s"],
        cwd=tmp_path,
        env={**environment, "BATCHSCOPE_PBS_LATENCY": "0"},
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == expected


@pytest.mark.slow
def test_a_signal_leaves_a_pbs_job_time(tmp_path):
    """PBS signals all processes of a job; the job has ended when its training is saved."""
    engine = Engine(tmp_path, qsub="#!/bin/sh\nfor script; do :; done\necho $script\n")
    training, script = tmp_path / "training", tmp_path / "script"
    training.write_text(
        f"trap 'sleep 2; touch {tmp_path}/saved; exit 85' TERM; touch {tmp_path}/started\n"
        "while :; do sleep 0.1; done\n"
    )
    script.write_text(f"cd / && sh {training} && exit 0 || exit 1\n")
    environment = {**os.environ, "PATH": f"{engine.bin}{os.pathsep}{os.environ['PATH']}"}
    words = ["pbs/submit", "-l", "place=free", str(script)]
    sent = subprocess.check_output(words, cwd=engine.root, env=environment, text=True).strip()
    process = subprocess.Popen(
        ["sh", sent], cwd=engine.root, env={**environment, "PBS_JOBID": "1.s"}, process_group=0
    )
    while not (tmp_path / "started").exists():
        assert process.poll() is None
    os.killpg(process.pid, 15)
    process.wait(60)
    assert (tmp_path / "saved").exists()
    assert (engine.root / "logs" / "pbs" / "1.s.ended").read_text().strip() != "0"
