"""Features of table rows: fitted on the training part, applied to all parts.

The median replaces a missing number. A categorical column becomes one feature of 0 and 1 for each
value. Every number is standardised. Training must not use the other parts, so a value that the
training part lacks has no feature: the features of its column are 0.
"""

from typing import Any

import numpy as np

from batchscope.datasets.raw import Columns


class Features:
    """Features of rows, fitted on the training part.

    Args:
        train: Rows of shape (n, columns), float64; rows of a table can have NaN and codes.
        columns: Columns of a table; None if every column is a feature without missing values.
    """

    def __init__(self, train: np.ndarray, columns: Columns | None) -> None:
        self.columns, width = columns, train.shape[1]
        coded = columns.categories if columns else {}
        self._numbers = [index for index in range(width) if index not in coded]
        self._medians = np.nanmedian(train[:, self._numbers], axis=0) if columns else None
        numbers = self._filled(train)
        self._mean, self._deviation = numbers.mean(axis=0), numbers.std(axis=0)
        # Column -> codes in the training part.
        self._seen = {
            index: np.unique(train[:, index][~np.isnan(train[:, index])]).astype(int)
            for index in coded
        }
        widths = [len(self._seen.get(index, (index,))) for index in range(width)]
        self._starts = np.cumsum([0, *widths])  # first feature of each column

    @staticmethod
    def unknown(train: np.ndarray, columns: Columns | None) -> list[str]:
        gaps = np.isnan(train).all(axis=0) if columns else ()
        return [
            columns.names[index]
            for index in np.flatnonzero(gaps)
            if index not in columns.categories
        ]

    @property
    def count(self) -> int:
        return int(self._starts[-1])

    def _filled(self, rows: np.ndarray) -> np.ndarray:
        if self.columns is None:
            return rows
        # A copy changes the order of summation, so rows of numbers alone are not copied.
        numbers = rows[:, self._numbers] if self.columns.categories else rows
        return np.where(np.isnan(numbers), self._medians, numbers)

    def transform(self, rows: np.ndarray) -> np.ndarray:
        """Return the features of rows, float32 of shape (n, count)."""
        features = np.zeros((len(rows), self.count), np.float32)
        numbers = standardised(self._filled(rows), self._mean, self._deviation)
        features[:, self._starts[self._numbers]] = numbers
        for index, seen in self._seen.items():
            features[:, self._starts[index] : self._starts[index + 1]] = rows[:, [index]] == seen
        return features

    def record(self, held_out: list[np.ndarray]) -> dict[str, Any]:
        """Return the fitted numbers for the record, and the values that have no feature.

        A feature is (column - mean) / deviation; the features of categories have mean 0 and
        deviation 1.

        Args:
            held_out: Rows of validation and test.
        """
        mean, deviation = np.zeros(self.count), np.ones(self.count)
        places = self._starts[self._numbers]
        mean[places], deviation[places] = self._mean, self._deviation
        moments = {"feature_means": mean.tolist(), "feature_deviations": deviation.tolist()}
        if self.columns is None:
            return moments
        names, categories, unseen = self.columns.names, {}, {}
        for index, seen in self._seen.items():
            values = self.columns.categories[index]
            categories[names[index]] = [values[code] for code in seen]
            codes = np.concatenate([rows[:, index] for rows in held_out])
            codes = codes[~np.isnan(codes) & ~np.isin(codes, seen)].astype(int)
            if len(codes):
                counts = zip(*np.unique(codes, return_counts=True), strict=True)
                unseen[names[index]] = {values[code]: int(count) for code, count in counts}
        features = [
            [f"{name}={word}" for word in categories[name]] if name in categories else [name]
            for name in names
        ]
        medians = zip(
            (names[index] for index in self._numbers), self._medians.tolist(), strict=True
        )
        return {
            **moments,
            "feature_names": sum(features, []),
            "feature_medians": dict(medians),
            "categories": categories,
            "unseen": unseen,
            "dropped": self.columns.dropped,
        }


def standardised(rows: np.ndarray, mean: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """Return (rows - mean) / deviation, float32; 0 for a feature that is constant in training."""
    # The deviation of a constant may be a rounding error.
    constant = deviation <= 1e-12 * np.abs(mean)
    with np.errstate(over="ignore"):
        scaled = (rows - mean) / np.where(constant, 1.0, deviation)
    scaled[:, constant] = 0.0
    return scaled.astype(np.float32)
