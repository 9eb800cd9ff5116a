"""Loss and metrics on every split, dropout off, and the generalisation gap as a difference and as a
ratio.
"""

from __future__ import annotations

from batchscope.catalogue import tasks
from batchscope.catalogue.entries import Column, Figure, Measure, Panel, Positive
from batchscope.catalogue.shared import WEIGHTS, epoch

_KESKAR = "Keskar et al. 2017, arXiv 1609.04836"
_TITLES = {"train": "Training", "validation": "Validation", "test": "Test"}


def _of_split(split: str, **stated: str) -> dict[str, Column]:
    """Returns loss and metrics on a split, with what is stated of each task's first metric."""
    loss = f"{_TITLES[split]} loss"
    found = {
        f"{split}_loss": Positive(f"Mean loss over the {split} split, dropout off.", label=loss)
    }
    for each in tasks.METRICS.values():
        found[f"{split}_{each.name}"] = Column(
            f"{each.doc.format(split=split)}, dropout off.",
            each.unit,
            label=f"{_TITLES[split]} {each.words}",
            least=each.least,
            most=each.most,
            **(stated if each in tasks.FIRST else {}),
        )
    return found


ENTRY = Measure(
    version="evaluate-v1",
    settings=(WEIGHTS, epoch("`weights`")),
    columns={
        **_of_split("train"),
        **_of_split("validation"),
        **_of_split("test", direction="falls", source=_KESKAR),
        "generalisation_gap": Column(
            "test_loss - train_loss.",
            label="Generalisation gap",
            direction="rises",
            source=_KESKAR,
        ),
        **{
            name: Column(f"train_{each.name} - test_{each.name}.", unit=each.unit)
            for name, each in tasks.GAPS.items()
        },
        "generalisation_gap_ratio": Column(
            "test_loss / train_loss; empty where the training loss is no more than rounding."
        ),
    },
    at_epochs=True,
    figures=(
        Figure(
            "accuracy",
            "{metric}",
            "Quality",
            "{metric} on the training, validation and test data.{error}",
            panels=tuple(
                Panel(
                    f"{split}_{{metric}}",
                    title,
                    "{metric}{percent}",
                    counted_on=f"{split}_examples",
                )
                for split, title in _TITLES.items()
            ),
            own=("|".join(f"{split}_{name}" for name in tasks.METRICS for split in _TITLES),),
        ),
        Figure(
            "generalisation_gap",
            "Generalisation gap",
            "Quality",
            "How much worse a model is on test data than on its training data, in loss and in "
            "{first}.",
            panels=(
                Panel("generalisation_gap", "Loss, difference", "test − training loss{nats}"),
                Panel("generalisation_gap_ratio", "Loss, ratio", "test loss / training loss"),
                Panel(
                    "generalisation_gap_{first}",
                    "{first}, difference",
                    "training − test {first}{points}",
                ),
            ),
            own=("|".join(["generalisation_gap", *tasks.GAPS]),),
        ),
    ),
    memory_mb=2000,
    order=1,
)
