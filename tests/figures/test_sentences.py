"""Sentences with a figure's own numbers: means at both ends of the batch sizes, and contrasts."""

import itertools

import pandas

from batchscope import figures, wording
from batchscope.figures.drawing import words

SIZES = (32, 64, 128, 256)


def _runs(sizes, seeds, epochs=(1,)):
    """Returns runs whose loss is epochs + size / 1000 + seed / 10."""
    rows = itertools.product(epochs, sizes, seeds)
    frame = pandas.DataFrame(rows, columns=["epochs", "batch_size", "seed"])
    loss = frame["epochs"] + frame["batch_size"] / 1000 + frame["seed"] / 10
    return frame.assign(status="finished", test_loss=loss)


def _timed(times):
    """Returns two optimizers at two batch sizes with two seeds each."""
    runs = {"batch_size": [8, 8, 16, 16] * 2, "seed": [0, 1] * 4, "time": times}
    return pandas.DataFrame(runs).assign(optimizer=["sgd"] * 4 + ["adam"] * 4, status="finished")


def test_a_sentence_holds_the_means_at_both_ends():
    frame = _runs(SIZES, (0, 1))
    frame.loc[(frame["batch_size"] == 256) & (frame["seed"] == 1), "status"] = "diverged"
    assert words.sentence(frame, "test_loss", "Mean test loss") == (
        "Mean test loss was 1.08 at batch size 32 and 1.26 at 256 (2 of 2 and 1 of 2 seeds)."
    )
    assert words.sentence(frame, "test_loss", "Mean test loss", most=4) == (
        "Mean test loss was 1.08 at batch size 32, 1.11 at 64, 1.18 at 128 and 1.26 at 256 "
        "(2 of 2 and 1 of 2 seeds)."
    )
    one = words.sentence(frame[frame["batch_size"] == 32], "test_loss", "Mean test loss")
    assert one.endswith("at batch size 32 (2 of 2 seeds).")
    assert words.sentence(frame.assign(status="diverged"), "test_loss", "Mean test loss") == ""


def test_a_sentence_about_several_series_names_each():
    text = words.sentence(_runs((32, 64), (0, 1), range(1, 7)), "test_loss", "Mean test loss")
    lead, rest = text.split(" By series: ")
    assert lead.startswith("Mean test loss was between 1.11 (epochs 1) and 6.11 (epochs 6) at ")
    assert rest.startswith("epochs 1: ") and rest.count("at batch size 32") == 4
    assert rest.endswith("; 2 further series in the figure.")


def test_series_are_described_by_their_contrast_over_paired_seeds():
    frame = _timed([1.0, 1.1, 2.0, 2.1, 2.0, 2.3, 6.0, 6.5])
    frame["accuracy"] = [0.5, 0.6, 0.5, 0.6, 0.5, 0.6, 0.7, 0.9]
    assert words.sentence(frame, "time", "Mean time", wording.Unit(" s")).startswith(
        "Mean time was between 2.0 s (SGD) and 6.2 s (Adam) at batch size 16, a factor of 3.05 "
        "(geometric mean of 2 pairs, 95 % interval 2.50 to 3.72); at 8 a factor of 2"
    )
    text = words.sentence(frame, "accuracy", "Mean accuracy", wording.PERCENT)
    assert "at batch size 16, a difference of 25 points (2 pairs, 95 % interval" in text
    # One seed makes the mean of ratios point against the means: their difference is reported.
    outlier = frame.assign(time=[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.1, 3.0])
    text = words.sentence(outlier, "time", "Mean time", wording.Unit(" s"))
    assert "between 1 s (SGD) and 2 s (Adam) at batch size 16, a difference of 1 s (2 pairs" in text


def test_a_ratio_is_paired_by_seed():
    runs = {"batch_size": [32] * 3 + [256] * 3, "seed": [0, 1, 2] * 2, "status": "finished"}
    frame = pandas.DataFrame({**runs, "sharpness_full_0.001": [1.0, 2.0, 4.0, 2.0, 4.0, 8.0]})
    for few in (frame[frame["seed"] == 0], frame[frame["batch_size"] == 32]):
        assert "factor" not in words.sentence(few, "sharpness_full_0.001", "Mean sharpness")
    found = figures.FIGURES["sharpness"].found(frame)
    assert found == (
        "Mean sharpness in the full space (ε = 0.001) was 2.3 at batch size 32 and 4.7 at 256 "
        "(3 of 3 seeds), a factor of 2 (geometric mean of 3 pairs, "
        "95 % interval 2 to 2)."
    )
    frame["sharpness_subspace_0.001"] = 10 - frame["sharpness_full_0.001"]
    both = figures.FIGURES["sharpness"].found(frame)
    assert both.startswith(found.removesuffix(".") + "; mean sharpness in a random subspace (")
    assert both.endswith(").") and ". " not in both.replace("0. ", "")


def test_series_that_are_alike_at_the_largest_batch_size_are_compared_at_the_smallest():
    frame = _timed([1.0, 1.2, 3.0, 3.0, 2.0, 2.2, 3.0, 3.0])
    assert words.sentence(frame, "time", "Mean time", wording.Unit(" s")).startswith(
        "Mean time was between 1.1 s (SGD) and 2.1 s (Adam) at batch size 8, a factor of 1.91 "
        "(geometric mean of 2 pairs, 95 % interval 1.10 to 3.33), "
        "and the same in both series at 16."
    )
    alike = frame[frame["batch_size"] == 16]
    text = words.sentence(alike, "time", "Mean time", wording.Unit(" s"))
    assert text.startswith("Mean time was 3 s in both series at batch size 16. By series: ")


def test_series_that_differ_in_one_factor_alone_are_reported_beside_the_extremes():
    """Rules none, sqrt and linear, and linear with a warm-up: what the warm-up does."""
    cases = [("none", 0), ("sqrt", 0), ("linear", 0), ("linear", 5)]
    rows = [
        {"learning_rate_scaling": rule, "warmup_epochs": epochs, "seed": seed, "test_loss": loss}
        for (rule, epochs), losses in zip(cases, ((4, 5), (1, 1), (2, 2), (3, 4)), strict=True)
        for seed, loss in enumerate(losses)
    ]
    frame = pandas.DataFrame(rows).assign(status="finished", batch_size=8)
    text = words.sentence(frame, "test_loss", "Mean test loss").split(" By series: ")[0]
    assert "between 1.0 (square-root scaling, no warmup) and 4.5 (no scaling, no warmup)" in text
    assert "; 5 epochs of warmup against no warmup, else alike, a factor of 1.7 (geom" in text


def test_what_follows_from_the_factor_is_not_alike():
    """Each optimizer has a rate of its own: nothing says what the optimizer does alone."""
    cases = [("sgd", 0.1, 1), ("adam", 0.01, 1), ("adam", 0.01, 2), ("adam", 0.01, 3)]
    rows = [
        {"optimizer": name, "learning_rate": rate, "replicas": count, "seed": seed, "x": x}
        for place, (name, rate, count) in enumerate(cases)
        for seed, x in enumerate((place + 1.0, place + 1.5))
    ]
    text = words.sentence(pandas.DataFrame(rows).assign(status="finished", batch_size=8), "x", "X")
    assert "for these two alone" in text and "else alike" not in text


def test_of_three_series_each_has_its_change():
    frame = _runs((32, 256), (0, 1, 2), (1, 2, 3))
    frame["test_loss"] += 0.001 * frame["seed"] * frame["batch_size"]
    text = words.sentence(frame, "test_loss", "Mean test loss")
    assert text.startswith("Mean test loss was, by series, epochs 1: 1.16 at batch size 32 and ")
    lead, rest = text.split(" It was between ")
    assert lead.count("a factor of") == 3 and lead.count("3 pairs, 95 % interval") == 3
    assert "(epochs 1) and" in rest and "for these two alone" in rest


def _tuned(column, values):
    """Returns runs of three seeds from values[size][rate]."""
    rows = [
        {"batch_size": size, "learning_rate": rate, "seed": seed, column: value}
        for size, rates in values.items()
        for rate, found in rates.items()
        for seed, value in enumerate(found)
    ]
    return pandas.DataFrame(rows).assign(status="finished")


def test_batch_sizes_are_compared_at_their_best_learning_rates():
    """Each seed at the rate of the others: seed 2 of batch size 16 is not read at its luckiest."""
    losses = {8: {0.1: (1, 1, 1), 0.2: (3, 3, 3)}, 16: {0.1: (4, 4, 0.5), 0.2: (2, 2.2, 2)}}
    text = words.sentence(_tuned("test_loss", losses), "test_loss", "Mean test loss")
    assert text == (
        "Mean test loss, each batch size at its best learning rate, was 1.00 at batch size "
        "8 (rate 0.1) and 2.07 at 16 (rate 0.2) (3 of 3 seeds), a factor of 2.06 (geometric mean "
        "of 3 pairs, 95 % interval 1.80 to 2.37)."
    )
    accuracies = {8: {0.1: (0.9, 0.9, 0.9), 0.2: (0.5, 0.5, 0.5)}}
    frame = _tuned("test_accuracy", accuracies)
    text = words.sentence(frame, "test_accuracy", "Mean test accuracy,", wording.PERCENT)
    assert text == (
        "Mean test accuracy, each batch size at its best learning rate, was 90 % at batch size 8 "
        "(rate 0.1) (3 of 3 seeds)."
    )


def test_rates_are_chosen_on_validation_data_where_the_sentence_is_on_test_data():
    """As the figure of best learning rates chooses them, and not by the accuracy itself."""
    accuracies = {8: {0.1: (0.93, 0.93), 0.2: (0.97, 0.98), 0.4: (0.95, 0.96)}}
    frame = _tuned("test_accuracy", accuracies)
    loss = frame["learning_rate"].map({0.1: 0.3, 0.2: 0.25, 0.4: 0.2})
    frame = frame.assign(best_validation_loss=loss, train_accuracy=frame["test_accuracy"])
    for name, expected in (
        ("test_accuracy", "was 95.5 % at batch size 8 (rate 0.4)"),
        ("train_accuracy", "was 97.5 % at batch size 8 (rate 0.2)"),
    ):
        assert expected in words.sentence(frame, name, "Mean of it", wording.PERCENT)
    # A size of which every rate lacks a run has no best one; one that failed at every rate is told.
    gone = (frame["seed"] == 0) == (frame["learning_rate"] == 0.2)
    missing = frame.assign(status=frame["status"].mask(gone, "missing"))
    assert words.sentence(missing, "test_accuracy", "Mean of it", wording.PERCENT) == ""
    failed = frame.assign(status=frame["status"].mask(gone, "diverged"))
    text = words.sentence(failed, "test_accuracy", "Mean of it", wording.PERCENT)
    assert "(rate 0.4) (1 of 2 seeds)" in text


def test_seeds_at_different_rates_have_a_range_of_them():
    losses = {8: {0.1: (1.0, 2.0, 1.2), 0.2: (1.5, 1.1, 1.6)}, 16: {0.1: (4, 4, 4), 0.2: (3, 3, 3)}}
    text = words.sentence(_tuned("test_loss", losses), "test_loss", "Mean test loss")
    assert "at batch size 8 (rates 0.1 to 0.2)" in text


def test_a_rate_at_which_a_run_failed_is_not_the_best():
    losses = {8: {0.1: (1.0, 1.0, float("nan")), 0.2: (3, 3, 3)}}
    frame = _tuned("test_loss", losses)
    status = frame["status"].mask(frame["test_loss"].isna(), "diverged")
    for failed in (frame, frame.fillna(0.1).assign(status=status)):
        text = words.sentence(failed, "test_loss", "Mean test loss")
        assert "was 3 at batch size 8 (rate 0.2) (3 of 3 seeds)" in text


def test_what_has_no_better_end_is_reported_at_every_rate():
    gaps = {8: {0.1: (1, 1, 1), 0.2: (3, 3, 3)}, 16: {0.1: (4, 4, 4), 0.2: (2, 2, 2)}}
    for column in ("generalisation_gap", "weight_distance"):
        text = words.sentence(_tuned(column, gaps), column, "Mean of it")
        assert text.startswith("Mean of it was between 2 (learning rate 0.2) and 4 (learning rate")
