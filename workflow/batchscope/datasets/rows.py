"""Rows of numbers: the tables that come with scikit-learn, checks, and their standardisation."""

from __future__ import annotations

import importlib.metadata

import numpy as np

from batchscope import disk
from batchscope.catalogue import dataset_definitions
from batchscope.datasets import arrays
from batchscope.datasets.raw import Raw, Request
from batchscope.errors import UserError


def breast_cancer(request: Request) -> Raw:
    """Returns the 569 tumours of 30 measured features that come with scikit-learn.

    Source: W. H. Wolberg, O. L. Mangasarian, W. N. Street, "Breast cancer Wisconsin (diagnostic)",
    UCI; the classes are `malignant` and `benign`.
    """
    return _scikit_learn(request, "breast_cancer.csv", "breast_cancer")


def wine(request: Request) -> Raw:
    """Returns the 178 wines of 13 measured features that come with scikit-learn.

    Source: S. Aeberhard, M. Forina, "Wine recognition data", UCI; the classes are three growers.
    """
    return _scikit_learn(request, "wine_data.csv", "wine")


def _scikit_learn(request: Request, file: str, name: str) -> Raw:
    # As `load_breast_cancer` reads it, whose import takes seconds: rows, features, classes first.
    path = arrays.scikit_learn_data() / "data" / file
    with arrays.reading_scikit_learn(request.where, name), open(path, encoding="utf-8") as text:
        class_names = text.readline().strip().split(",")[2:]
        table = np.loadtxt(text, delimiter=",")
    return Raw(
        table[:, :-1],
        table[:, -1].astype(np.int32),
        class_names,
        f"scikit-learn {importlib.metadata.version('scikit-learn')}, {name}",
        {path.name: disk.file_sha256(path)},
        kind=dataset_definitions.ROWS,
    )


def checked(where: str, rows: np.ndarray) -> np.ndarray:
    """Returns rows (n, features) in float64; raises `UserError`, with the row, if not finite."""
    if rows.ndim != 2 or 0 in rows.shape:
        raise UserError(f"{where}: received shape {rows.shape}; (n, features) is expected.")
    if rows.dtype.kind not in "uifb":
        raise UserError(f"{where}: received {rows.dtype}; numbers are expected.")
    wrong = np.argwhere(~np.isfinite(rows)) if rows.dtype.kind == "f" else ()
    if len(wrong):
        row, feature = wrong[0]
        raise UserError(
            f"{where}: received {rows[row, feature]} in row {row}, column {feature}; finite "
            "numbers are expected."
        )
    return rows.astype(np.float64)


def moments(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns mean and standard deviation of each feature of rows, shape (n, features)."""
    return rows.mean(axis=0), rows.std(axis=0)


def standardised(rows: np.ndarray, mean: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """Returns rows less the mean over the standard deviation, float32; a constant feature is 0.

    Mean and standard deviation are those of the training part alone: nothing of the other parts is
    known when a model is trained.
    """
    # A constant's deviation may be a rounding; what differs from it elsewhere says nothing.
    constant = deviation <= 1e-12 * np.abs(mean)
    with np.errstate(over="ignore"):
        found = (rows - mean) / np.where(constant, 1.0, deviation)
    found[:, constant] = 0.0
    return found.astype(np.float32)
