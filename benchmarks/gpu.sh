#!/usr/bin/env bash
# PyTorch and JAX on a GPU: its utilisation, memory and energy by batch size, in under ten minutes.
#
#   benchmarks/gpu.sh [PYTHON] [FOLDER]
#
# PYTHON (python3 by default) has torch and jax with GPU support. It needs no TensorFlow: Batchscope's
# other packages go into an environment of their own. Without a package index, set PIP_NO_INDEX=1
# and PIP_FIND_LINKS to a folder of wheels. FOLDER gets the report, tables and logs (results/gpu).
set -euo pipefail
cd "$(dirname "$0")/.."
python=$(command -v "${1:-python3}")
folder=${2:-results/gpu}

nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv
prefix=$("$python" -c 'import jax, sys, torch; assert torch.cuda.is_available() and jax.devices("gpu"); print(sys.prefix)')

mkdir -p .frameworks
ln -sfn "$prefix" .frameworks/pytorch
ln -sfn "$prefix" .frameworks/jax
[ -x .frameworks/batchscope/bin/python ] || "$python" -m venv .frameworks/batchscope
.frameworks/batchscope/bin/python - >.frameworks/requirements.txt <<'PYTHON'
import tomllib

with open("pyproject.toml", "rb") as file:
    packages = tomllib.load(file)["project"]["dependencies"]
print(*(name for name in packages if not name.startswith(("tensorflow", "keras"))), sep="\n")
PYTHON
.frameworks/batchscope/bin/pip install -q -r .frameworks/requirements.txt

export PATH="$PWD/.frameworks/batchscope/bin:$PATH"
python workflow/run.py plan --configfile examples/frameworks/gpu.yaml
timeout 480 snakemake --cores all -q rules --configfile examples/frameworks/gpu.yaml || true
timeout 60 snakemake --cores all -q rules --configfile examples/frameworks/gpu.yaml --config partial=true
mkdir -p "$folder"
cp -r results/studies/frameworks_gpu logs "$folder"
