"""Batchscope's library: rooms, ground first; each module imports from its own room and those above.

The docstring of each package says what it holds and what it does not.
"""

# Room -> what it may import from outside, of the libraries that are slow to import.
ROOMS = {
    "errors": (),
    "wording": (),
    "problems": (),
    "project_files": (),
    "damage": (),
    "disk": ("numpy",),
    "private_interfaces": ("scipy", "tensorflow"),
    "catalogue": (),
    "host": ("numpy", "tensorflow", "keras"),
    "study": (),
    "store": ("numpy",),
    "datasets": ("numpy", "sklearn"),
    "training": ("numpy", "tensorflow", "keras"),
    "frameworks": ("numpy", "torch", "mxnet", "jax"),
    "measures": ("numpy", "scipy", "tensorflow", "keras"),
    "timing": ("numpy", "tensorflow", "keras"),
    "analysis": ("numpy", "scipy", "pandas"),
    "tables": ("numpy", "pandas"),
    "figures": ("numpy", "pandas", "matplotlib"),
    "report": ("jinja2", "pandas"),
    "rule_parts": (),
    "snakefile": (),
}
