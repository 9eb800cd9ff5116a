"""Turn rows of numbers and words into features, by a `ColumnTransformer` of the training part."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
from pandas.api.types import is_numeric_dtype

from batchscope.core.errors import unexpected

if TYPE_CHECKING:
    import pandas


class Features:
    """Features of rows, fitted on the training part alone.

    A missing number becomes the median, and every number is standardised. A column of words becomes
    one feature of 0 and 1 for each word of the training part. A missing or new word gives zeros.

    Args:
        place: Place of the data set, for errors.
        train: Columns of numbers and of words, which can have missing values.
    """

    def __init__(self, place: str, train: pandas.DataFrame) -> None:
        from sklearn.compose import ColumnTransformer
        from sklearn.impute import SimpleImputer
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import OneHotEncoder, StandardScaler

        are_numbers = train.dtypes.map(is_numeric_dtype)
        for name in train.columns[are_numbers & train.isna().all()]:
            received = f"no value of {name} to train on"
            raise unexpected(place, received, "at least one", "`ignore` leaves it out")
        steps = []
        # Adjacent columns of one type share a step, so the features keep the order of the columns.
        for is_number, group in itertools.groupby(train, are_numbers.get):
            names = list(group)
            step: Any = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
            if not is_number:
                step = OneHotEncoder(
                    categories=[np.sort(train[name].dropna().unique()) for name in names],
                    feature_name_combiner=lambda name, word: f"{name}={word}",
                    handle_unknown="ignore",
                    sparse_output=False,
                )
            steps.append((str(names[0]), step, names))
        self._transformer = ColumnTransformer(steps, verbose_feature_names_out=False).fit(train)
        self._is_table = train.columns.dtype.kind != "i"  # The columns of an array are numbered.

    def transform(self, rows: pandas.DataFrame) -> np.ndarray:
        with np.errstate(over="ignore"):
            return self._transformer.transform(rows).astype(np.float32)

    def record(self) -> dict[str, Any]:
        """Return the fitted numbers for the record.

        A feature is (column - mean) / deviation; the features of words have mean 0 and deviation 1.
        """
        means: list[float] = []
        deviations: list[float] = []
        medians: dict[str, float] = {}
        categories: dict[str, list[str]] = {}
        for _, step, names in self._transformer.transformers_:
            if hasattr(step, "categories_"):
                category_lists = [values.tolist() for values in step.categories_]
                categories |= dict(zip(names, category_lists, strict=True))
                means += [0.0] * sum(map(len, category_lists))
                deviations += [1.0] * sum(map(len, category_lists))
            else:
                imputer, scaler = step
                medians |= dict(zip(names, imputer.statistics_.tolist(), strict=True))
                means += scaler.mean_.tolist()
                deviations += scaler.scale_.tolist()
        record = {"feature_means": means, "feature_deviations": deviations}
        if self._is_table:
            names = self._transformer.get_feature_names_out().tolist()
            record |= {"feature_names": names, "feature_medians": medians, "categories": categories}
        return record
