"""Errors and problems for users, formatted numbers, atomic files, and paths of the project.

Every other package may import from this one. It also has all uses of private interfaces.
"""
