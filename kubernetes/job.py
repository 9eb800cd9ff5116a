#!/usr/bin/env python3
"""A Snakemake job as a job of Kubernetes: `submit` it, print its `status`, or cancel jobs by name.

Needs kubectl, and the project's folder on a volume that is mounted at the same path in every pod.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import uuid

APP = "batchscope"
GRACE_SECONDS = 90  # after SIGTERM: a training writes its checkpoint
# Kubernetes signals the first process alone, and ends all others with it. All are to get the
# signal; a shell among them dies of it at once, before the training behind it has its checkpoint.
RUN = """
sh "$1" & child=$!
trap 'stopped=1; kill -TERM -1' TERM
while :; do wait $child; status=$?; kill -0 $child 2>/dev/null || break; done
seconds=0
while [ -n "$stopped" ] && [ $seconds -lt 80 ] && kill -0 -1 2>/dev/null
do sleep 1; seconds=$((seconds + 1)); done
exit $status
"""


def manifest(given: argparse.Namespace) -> dict:
    """Returns the job that runs a script in the present folder."""
    alone = "true" if given.alone else "false"
    asked = {"cpu": str(max(1, given.cpus)), "memory": f"{given.memory_mb}M"}
    limits = {"memory": asked["memory"], **({"nvidia.com/gpu": given.gpus} if given.gpus else {})}
    # A job that is to have a node to itself goes where none of ours runs, and none of ours to it.
    apart = {"matchLabels": {"app": APP, **({} if given.alone else {"alone": "true"})}}
    term = {"labelSelector": apart, "topologyKey": "kubernetes.io/hostname"}
    pod = {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": 60 * given.minutes,  # of the pod: it does not run while it waits
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
        "volumes": [{"name": "work", "persistentVolumeClaim": {"claimName": given.claim}}],
        "containers": [
            {
                "name": "job",
                "image": given.image,
                "command": ["/bin/sh", "-c", RUN, "sh", os.path.abspath(given.script)],
                "workingDir": os.getcwd(),
                "volumeMounts": [{"name": "work", "mountPath": given.mount}],
                "resources": {"requests": asked, "limits": limits},
            }
        ],
    }
    name = f"{APP}-{uuid.uuid4().hex[:16]}"
    labels = {"app": APP, "alone": alone}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "backoffLimit": 0,  # Snakemake sends it again, with more memory
            "ttlSecondsAfterFinished": 24 * 3600,
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def submit(given: argparse.Namespace) -> str:
    """Sends a job; returns its name."""
    made = manifest(given)
    # Its own word goes to stderr: the name alone is to be printed.
    subprocess.run(
        ["kubectl", "create", "-f", "-"],
        input=json.dumps(made),
        text=True,
        check=True,
        stdout=sys.stderr,
    )
    return made["metadata"]["name"]


def status(name: str) -> str:
    """Returns `success`, `failed` or `running`; a job that is no more has failed.

    One of which nothing is heard counts as running: to send it again would run it twice.
    """
    words = ["kubectl", "get", "job", name, "--ignore-not-found", "-o", "json"]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        return "running"
    if not done.stdout.strip():
        return "failed"
    conditions = json.loads(done.stdout).get("status", {}).get("conditions") or []
    ended = {each["type"] for each in conditions if each["status"] == "True"}
    if "Complete" in ended:
        return "success"
    return "failed" if "Failed" in ended else "running"


def main(words: list[str]) -> None:
    """Runs one command. Snakemake cancels by names alone."""
    if words and words[0] not in ("submit", "status"):
        subprocess.run(["kubectl", "delete", "job", "--wait=false", *words], check=True)
        return
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    sent = commands.add_parser("submit")
    for option in ("image", "claim", "mount"):
        sent.add_argument(f"--{option}", required=True)
    for option in ("cpus", "memory-mb", "minutes", "gpus", "alone"):
        sent.add_argument(f"--{option}", type=int, required=True)
    sent.add_argument("script")
    commands.add_parser("status").add_argument("name")
    given = parser.parse_args(words)
    print(submit(given) if given.command == "submit" else status(given.name))


if __name__ == "__main__":
    main(sys.argv[1:])
