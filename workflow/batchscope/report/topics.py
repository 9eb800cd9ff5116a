"""What questions ask for; nothing, since figures have no topics."""

from __future__ import annotations


def asked(question: str) -> list:
    """Returns the topics that a question asks for."""
    return []
