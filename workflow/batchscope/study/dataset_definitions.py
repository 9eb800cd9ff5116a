"""Read definitions of data sets: models of `batchscope.datasets.sources`, which are found here."""

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Self, Union, get_args

from pydantic import Discriminator, TypeAdapter

from batchscope.study import tasks
from batchscope.study.model import Model

_PACKAGE = "batchscope.datasets.sources"


def _source_models() -> Iterator[Any]:
    """Yield the models with a field `source` that the modules of the package define."""
    for info in pkgutil.iter_modules(importlib.import_module(_PACKAGE).__path__):
        module = importlib.import_module(f"{_PACKAGE}.{info.name}")
        for value in vars(module).values():
            is_model = isinstance(value, type) and issubclass(value, Model)
            if is_model and value.__module__ == module.__name__ and "source" in value.model_fields:
                yield value


# Value of `source` -> its model, a `DataSource` of batchscope.datasets.source.
SOURCES: dict[str, Any] = {
    get_args(model.model_fields["source"].annotation)[0]: model for model in _source_models()
}
Dataset = Annotated[Union[(*SOURCES.values(),)], Discriminator("source")]
_DATASET: TypeAdapter[Any] = TypeAdapter(Dataset)
# Data sets that need no entry in `datasets`.
BUILT_IN: dict[str, Any] = {
    model.built_in: model(source=source) for source, model in SOURCES.items() if model.built_in
}


def read(raw: Mapping[str, Any]) -> Any:
    return _DATASET.validate_python(dict(raw))


@dataclass(frozen=True)
class DatasetInfo:
    """Facts of a data set that are known when planning; None if only its files know."""

    name: str
    id: str  # its name in paths
    definition: Any  # its `DataSource`
    training_examples: int | None
    image_side: int | None  # height and width of images in pixels
    kind: str | None  # one of `tasks.KINDS`
    task: str | None = tasks.CLASSIFICATION

    @classmethod
    def of(cls, name: str, definition: Any, recorded: Callable[[str], int | None]) -> Self:
        """Return the facts of a data set.

        Args:
            recorded: Function from the id to the training examples in the record of prepared data.
        """
        token, shape = definition.token(name), definition.shape() or ()
        return cls(
            name,
            token,
            definition,
            recorded(token) or definition.training_size(),
            shape[0] if len(shape) == 3 else None,
            definition.kind_of_examples(),
            definition.task_of_labels(),
        )
