"""Reading factors and settings of a configuration; what is not as expected is reported."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from batchscope.catalogue import coercion, parameters
from batchscope.catalogue.parameters import Parameter
from batchscope.problems import Findings, Place, Problem, received, show, unknown
from batchscope.study import experiment_kinds

EXPECTED_SEED = "a seed given by the experiment's own key 'seeds'"

# Name -> token and what stands behind it; None for what is at fault where it is defined.
Tokens = dict[str, tuple[str, Any] | None]


class Broken(Exception):
    """A value whose problem is already reported."""


class Reader:
    """Reads values for one pass over a configuration."""

    def __init__(self, findings: Findings, datasets: Tokens, models: Tokens) -> None:
        self.findings = findings
        self._tokens = {"dataset": datasets, "model": models}

    def factors(self, place: Place, mapping: Any, kind: experiment_kinds.Kind) -> dict[str, Any]:
        """Returns the sound factors of a map from factors to values."""
        result = {}
        for name, raw in coercion.as_map(mapping).items():
            if self._known_factor((*place, name), kind):
                with contextlib.suppress(Broken):
                    result[name] = self.factor(name, (*place, name), raw, kind)
        return result

    def factor_lists(
        self, place: Place, mapping: Any, kind: experiment_kinds.Kind
    ) -> dict[str, tuple[Any, ...]]:
        """Returns the sound values of a map from factors to lists of values."""
        result = {}
        for name, raw in coercion.as_map(mapping).items():
            at = (*place, name)
            if not self._known_factor(at, kind) or self.findings.unreadable(at):
                continue
            if not isinstance(raw, list) or not raw:
                self.findings.report(received(at, raw, "a list of at least one value"))
                continue
            read = functools.partial(self.factor, name, kind=kind)
            result[name] = self.distinct(at, raw, read)
        return result

    def factor(self, name: str, place: Place, raw: Any, kind: experiment_kinds.Kind) -> Any:
        """Returns the value of a factor; of a data set or model, its token.

        Raises:
            Broken: If it is not what is expected.
        """
        if name not in self._tokens:
            return self.value(place, kind.factors[name], raw)
        known = self._tokens[name]
        if isinstance(raw, str) and known.get(raw):
            return known[raw][0]
        if not isinstance(raw, str) or raw not in known:  # else reported where it is defined
            expected = f"one of {', '.join(sorted(known))}"
            self.findings.report(received(place, raw, expected, sorted(known)))
        raise Broken

    def value(self, place: Place, parameter: Parameter, raw: Any) -> Any:
        """Returns a value as its parameter expects it.

        Raises:
            Broken: If it is not what is expected.
        """
        try:
            return coercion.coerce(parameter, raw)
        except ValueError:
            self.findings.report(received(place, raw, parameter.expected, parameter.choices))
            raise Broken from None

    def setting(self, place: Place, parameter: Parameter, raw: Any) -> Any:
        """Returns the value of a setting, which may be a list.

        Raises:
            Broken: If it, or an item of it, is not what is expected.
        """
        if not parameter.many or not isinstance(raw, list) or not raw:
            return self.value(place, parameter, raw)
        each = replace(parameter, many=False)
        items = self.distinct(place, raw, lambda at, item: self.value(at, each, item))
        if len(items) < len(raw):
            raise Broken
        return self.value(place, parameter, items)

    def distinct(
        self, place: Place, raw: list[Any], read: Callable[[Place, Any], Any]
    ) -> tuple[Any, ...]:
        """Returns the sound items of a list, each once; a repeated one is reported.

        Args:
            read: (place, item) -> value; raises Broken for an item that it has reported.
        """
        seen: dict[Any, int] = {}
        for index, item in enumerate(raw):
            try:
                value = read((*place, index), item)
            except Broken:
                continue
            if value in seen:
                text = f"received {show(item)} again (as in [{seen[value]}]); "
                text += "every value once is expected."
                self.findings.report(Problem((*place, index), text))
            seen.setdefault(value, index)
        return tuple(seen)

    def _known_factor(self, place: Place, kind: experiment_kinds.Kind) -> bool:
        name = place[-1]
        if name == "seed":
            text = f"received a seed; {EXPECTED_SEED} is expected."
            self.findings.report(Problem(place, text))
        elif name not in experiment_kinds.EITHER.factors:
            aliases = parameters.aliases(experiment_kinds.EITHER.factors)
            self.findings.report(unknown(place, "factor", kind.known, aliases))
        elif name not in kind.factors:
            self.findings.report(Problem(place, kind.why_not))
        else:
            return True
        return False
