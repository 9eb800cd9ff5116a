"""The kinds of figures, one module each: how a spec of the catalogue is drawn."""
