# Reads a label and 64 pixels a line; trains by stochastic gradient descent and prints the losses.

{ label[NR] = $1; for (p = 1; p <= 64; p++) pixel[NR, p] = $(p + 1) }

# Fills `share` with what the model takes each class for; returns the loss.
function predict(row,    c, p, most, sum) {
    most = -1e9
    for (c = 0; c < 10; c++) {
        score[c] = bias[c]
        for (p = 1; p <= 64; p++) if (pixel[row, p]) score[c] += weight[c, p] * pixel[row, p]
        if (score[c] > most) most = score[c]
    }
    for (c = 0; c < 10; c++) sum += share[c] = exp(score[c] - most)
    for (c = 0; c < 10; c++) share[c] /= sum
    return most - score[label[row]] + log(sum)
}

function mean_loss(first, last,    row, sum) {
    for (row = first; row <= last; row++) sum += predict(row)
    return sum / (last - first + 1)
}

END {
    if (!NR) exit 1
    srand(seed + 1)
    trained = 600
    steps = int(2400 / size); every = int(400 / size); if (every < 1) every = 1
    for (step = 0; step <= steps; step++) {
        if (step % every == 0 || step == steps)
            printf "step %d: train loss %.6f, val loss %.6f\n", step, mean_loss(1, 200), mean_loss(601, 800)
        if (step == steps) break
        split("", change)
        for (n = 0; n < size; n++) {
            row = 1 + int(rand() * trained); predict(row)
            for (c = 0; c < 10; c++) {
                error = (share[c] - (c == label[row])) / size
                change[c, 0] += error
                for (p = 1; p <= 64; p++) if (pixel[row, p]) change[c, p] += error * pixel[row, p]
            }
        }
        for (c = 0; c < 10; c++) {
            bias[c] -= rate * change[c, 0]
            for (p = 1; p <= 64; p++) weight[c, p] -= rate * change[c, p]
        }
    }
}
