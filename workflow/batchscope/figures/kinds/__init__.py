"""The kinds of figures, one module each: how a specification is drawn."""
