"""Batchscope's library: a package imports from the packages above it in the list below.

The docstring of each package tells its content.
"""

# Package -> the libraries with slow imports that it may import.
PACKAGES = {
    "core": ("numpy", "tensorflow"),
    "host": ("numpy", "tensorflow", "keras"),
    "study": ("numpy", "pandas"),
    "store": ("numpy",),
    "datasets": ("numpy", "pandas", "sklearn", "tensorflow"),
    "training": ("numpy", "tensorflow", "keras"),
    "measures": ("numpy", "scipy", "tensorflow", "keras"),
    "timing": ("numpy", "tensorflow", "keras"),
    "external": ("numpy", "pandas", "tensorflow"),
    "analysis": ("numpy", "scipy", "pandas"),
    "tables": ("numpy", "pandas"),
    "figures": ("numpy", "pandas", "matplotlib"),
    "report": ("jinja2", "pandas"),
    "rules": (),
    "cli": (),
}
