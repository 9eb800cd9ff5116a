"""Loss and accuracy: the entry."""

from batchscope.catalogue.entries import Column, Figure, Measure, Panel, Positive, Scale, Share
from batchscope.catalogue.shared import WEIGHTS, epoch

_FIGURES = (
    Figure(
        "accuracy",
        "Accuracy",
        "Quality",
        caption=(
            "Accuracy on the training, validation and test data. Pale bars: the 95 % binomial "
            "error of an accuracy counted on so many examples, which no number of seeds undoes."
        ),
        panels=tuple(
            Panel(
                f"{split}_accuracy",
                title,
                "accuracy (%)",
                Scale.PERCENT,
                counted_on=f"{split}_examples",
            )
            for split, title in (
                ("train", "Training"),
                ("validation", "Validation"),
                ("test", "Test"),
            )
        ),
        own=("train_accuracy|validation_accuracy|test_accuracy",),
    ),
    Figure(
        "generalisation_gap",
        "Generalisation gap",
        "Quality",
        caption=(
            "How much worse a model is on test data than on its training data, in loss and in "
            "accuracy."
        ),
        panels=(
            Panel("generalisation_gap", "Loss, difference", "test − training loss (nats)"),
            Panel("generalisation_gap_ratio", "Loss, ratio", "test loss / training loss"),
            Panel(
                "generalisation_gap_accuracy",
                "Accuracy, difference",
                "training − test accuracy (points)",
                Scale.PERCENT,
            ),
        ),
        own=("generalisation_gap|generalisation_gap_accuracy",),
    ),
)

ENTRY = Measure(
    name="evaluate",
    version="evaluate-v1",
    doc=(
        "Loss and accuracy on every split, dropout off, and the generalisation gap as a "
        "difference and as a ratio."
    ),
    settings=(WEIGHTS, epoch("`weights`")),
    columns={
        "train_loss": Positive(
            "Mean loss over the train split, dropout off.", label="Training loss"
        ),
        "train_accuracy": Share(
            "Share of the train split that is classified rightly, dropout off.",
            unit="share",
            label="Training accuracy",
        ),
        "validation_loss": Positive(
            "Mean loss over the validation split, dropout off.", label="Validation loss"
        ),
        "validation_accuracy": Share(
            "Share of the validation split that is classified rightly, dropout off.",
            unit="share",
            label="Validation accuracy",
        ),
        "test_loss": Positive("Mean loss over the test split, dropout off.", label="Test loss"),
        "test_accuracy": Share(
            "Share of the test split that is classified rightly, dropout off.",
            unit="share",
            label="Test accuracy",
            direction="falls",
            source="Keskar et al. 2017, arXiv 1609.04836",
        ),
        "generalisation_gap": Column(
            "test_loss - train_loss.",
            label="Generalisation gap",
            direction="rises",
            source="Keskar et al. 2017, arXiv 1609.04836",
        ),
        "generalisation_gap_accuracy": Column("train_accuracy - test_accuracy.", unit="share"),
        "generalisation_gap_ratio": Column(
            "test_loss / train_loss; empty where the training loss is no more than rounding."
        ),
    },
    at_epochs=True,
    figures=_FIGURES,
    memory_mb=2000,
    order=1,
)
