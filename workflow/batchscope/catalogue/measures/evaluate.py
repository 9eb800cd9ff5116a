"""Loss and accuracy: the entry."""

from batchscope.catalogue.entries import Column, Figure, Measure, Topic
from batchscope.catalogue.shared_settings import WEIGHTS, epoch

_FIGURES = (
    Figure(
        "accuracy",
        "Accuracy",
        "Quality",
        caption=(
            "Accuracy on the training, validation and test data, against batch size. Every seed is "
            "a point; means have a 95 % interval over seeds (Student's t). The broad pale bars are "
            "the 95 % binomial error of an accuracy that is counted on so many examples: no "
            "interval over seeds can undo it. Where a document's accuracies are known, they stand "
            "beside ours on test data in a shaded panel of their own, as published: on a scale of "
            "their own, without intervals, and as a contrast and no target."
        ),
        own=("train_accuracy|validation_accuracy|test_accuracy",),
        topics=(
            Topic(r"accuracy", figures=("accuracy", "accuracy_by_epochs")),
            Topic(r"\bcompare\b"),
            Topic(r"\bcompare\b", "validation loss", ("best_losses",)),
        ),
    ),
    Figure(
        "generalisation_gap",
        "Generalisation gap",
        "Quality",
        caption=(
            "The generalisation gap against batch size: of the loss, as a difference (test "
            "minus training) and as a ratio (test over training), and of the accuracy, as a "
            "difference (training minus test). Every seed is a point; means have a 95 % "
            "interval (Student's t)."
        ),
        own=("generalisation_gap|generalisation_gap_accuracy",),
        topics=(Topic(r"generali[sz]ation"),),
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
        "train_loss": Column("Mean loss over the train split, dropout off.", label="Training loss"),
        "train_accuracy": Column(
            "Share of the train split that is classified rightly, dropout off.",
            unit="share",
            label="Training accuracy",
        ),
        "validation_loss": Column(
            "Mean loss over the validation split, dropout off.", label="Validation loss"
        ),
        "validation_accuracy": Column(
            "Share of the validation split that is classified rightly, dropout off.",
            unit="share",
            label="Validation accuracy",
        ),
        "test_loss": Column("Mean loss over the test split, dropout off.", label="Test loss"),
        "test_accuracy": Column(
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
