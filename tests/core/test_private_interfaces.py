"""Private interfaces of Snakemake: the listed ones are used, and each exists."""

import importlib.util
import re
from pathlib import Path

from project import ROOT

# Attribute of Snakemake's `workflow` that its documentation does not name -> its purpose, and the
# benchmark if it only saves time.
SNAKEMAKE = {
    "config_settings": "the options of `--config` alone; `config` also holds those of the file",
    "configfiles": "the path of the configuration file; `config` holds its content only",
    "dag": "the targets of a call, to check that a call without a failed job made them",
    "global_resources": "the GPUs and cores of the call; `resources` belong to a job",
    "nodes": "whether the call has a number of jobs, as for a cluster, or a number of cores",
    "remote_exec": "whether this process is a job of a cluster, which reads the Snakefile again",
    "local_exec": "whether jobs run on this machine, where they share imported libraries",
    "register_resource": "the resource `gpu` of 1, if the call sets none",
    "scheduler": "to remove its limit of jobs per second (benchmarks/grid.py)",
}


def test_the_rules_use_what_is_listed_of_snakemake():
    rules = [ROOT / "Snakefile", *(ROOT / "workflow" / "rules").glob("*.smk")]
    text = "".join(path.read_text(encoding="utf-8") for path in rules)
    used = {*re.findall(r"\bworkflow\.([a-z_]+)\b(?!/)", text)} - {"basedir"}  # documented
    assert used == {*SNAKEMAKE}
    # An import of Snakemake takes a second.
    module = Path(importlib.util.find_spec("snakemake").origin).with_name("workflow.py")
    names = re.findall(r"(?:self\.|^    def |^    )(\w+)(?= = |\(|:)", module.read_text(), re.M)
    assert used <= {*names}
