"""Features of rows: a `ColumnTransformer` fitted on the training part, applied to all parts."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np

from batchscope.errors import unexpected


class Columns(NamedTuple):
    """The columns of a table, before `Features` converts them."""

    names: list[str]
    categories: dict[int, list[str]]  # position of a column of words -> word of each code
    dropped: int  # rows that were dropped for a missing cell


class Features:
    """Features of rows, fitted on the training part alone.

    A missing number becomes the median, and every number is standardised. A column of words becomes
    one feature of 0 and 1 for each word of the training part; a missing or other word is 0 in all.

    Args:
        place: Place of the data set, for errors.
        train: Rows of shape (n, columns), float64; rows of a table can have NaN and codes.
        columns: Columns of a table; None if every column is a number without missing values.
    """

    def __init__(self, place: str, train: np.ndarray, columns: Columns | None) -> None:
        from sklearn.compose import ColumnTransformer
        from sklearn.impute import SimpleImputer
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import OneHotEncoder, StandardScaler

        self.columns, words = columns, columns.categories if columns else {}
        for index in np.flatnonzero(np.isnan(train).all(axis=0)).tolist():
            if index not in words:
                received = f"no value of {columns.names[index]} to train on"
                raise unexpected(place, received, "at least one", "`ignore` leaves it out")
        steps = []
        # Neighbours of one kind share a step, so the features keep the order of the columns.
        for has_words, group in itertools.groupby(range(train.shape[1]), words.__contains__):
            indices = list(group)
            step: Any = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
            if has_words:
                codes = [np.unique(train[:, index]) for index in indices]
                codes = [values[~np.isnan(values)] for values in codes]
                step = OneHotEncoder(categories=codes, handle_unknown="ignore", sparse_output=False)
            steps.append((f"{'words' if has_words else 'numbers'} {indices[0]}", step, indices))
        self._transformer = ColumnTransformer(steps).fit(train)
        self.count = self._transformer.transform(train[:1]).shape[1]

    def transform(self, rows: np.ndarray) -> np.ndarray:
        """Return the features of rows, float32 of shape (n, count)."""
        if not len(rows):
            return np.zeros((0, self.count), np.float32)
        with np.errstate(over="ignore"):
            return self._transformer.transform(rows).astype(np.float32)

    def record(self) -> dict[str, Any]:
        """Return the fitted numbers for the record.

        A feature is (column - mean) / deviation; the features of words have mean 0 and deviation 1.
        """
        means: list[float] = []
        deviations: list[float] = []
        names: list[str] = []
        medians: dict[str, float] = {}
        categories: dict[str, list[str]] = {}
        for kind, step, indices in self._transformer.transformers_:
            columns = [self.columns.names[index] for index in indices] if self.columns else []
            if kind.startswith("numbers"):
                imputer, scaler = (fitted for _, fitted in step.steps)
                means += scaler.mean_.tolist()
                deviations += scaler.scale_.tolist()
                medians |= zip(columns, imputer.statistics_.tolist(), strict=False)
                names += columns
                continue
            for name, index, codes in zip(columns, indices, step.categories_, strict=True):
                categories[name] = [self.columns.categories[index][int(code)] for code in codes]
                means += [0.0] * len(codes)
                deviations += [1.0] * len(codes)
                names += [f"{name}={word}" for word in categories[name]]
        record = {"feature_means": means, "feature_deviations": deviations}
        if self.columns is not None:
            record |= {"feature_names": names, "feature_medians": medians}
            record |= {"categories": categories, "dropped": self.columns.dropped}
        return record
