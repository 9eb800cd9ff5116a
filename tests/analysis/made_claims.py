"""Planned claims, whose cells hold values of factors."""

import math

from batchscope.study.claims import Claim


def claim(name, kind, document="A document", requires="", **test) -> Claim:
    """A claim on the experiment `gap`.

    Args:
        test: Keys of the test. `sides` are those of a comparison or the groups of an order.
    """
    sides = test.pop("sides", ())
    if sides and kind == "order":
        test["order"] = sides
    elif sides:
        test["of"], test["to"] = sides
    given = {"type": kind, "experiment": "gap", "column": "test_accuracy", **test}
    given = {key: value for key, value in given.items() if value not in (math.inf, -math.inf)}
    return Claim.model_validate(
        {
            "id": name,
            "document": document,
            "place": "Figure 1",
            "sentence": "It does.",
            "requires": requires,
            "test": given,
        }
    )
