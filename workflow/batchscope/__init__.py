"""Batchscope's library: packages, ground first; each imports from itself and those above.

The docstring of each package says what it holds and what it does not.
"""

# Package -> what it may import from outside, of the libraries that are slow to import.
PACKAGES = {
    "wording": (),
    "errors": (),
    "problems": (),
    "project_files": (),
    "disk": ("numpy",),
    "private_interfaces": ("tensorflow",),
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
