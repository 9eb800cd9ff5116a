#!/bin/sh
# Softmax regression on scikit-learn's handwritten digits, in awk: any program that prints its losses
# will do. The lines are those of nanoGPT, `step 100: train loss 0.5012, val loss 0.5339`.
#
# usage: train.sh BATCH_SIZE LEARNING_RATE SEED
set -eu

python - <<'PYTHON' | awk -v size="$1" -v rate="$2" -v seed="$3" -f softmax.awk
from sklearn.datasets import load_digits

for pixels, label in zip(*load_digits(return_X_y=True)):
    print(int(label), *(pixel / 16 for pixel in pixels))
PYTHON
