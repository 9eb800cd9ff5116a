"""Errors and problems for users, formatted numbers, atomic files and locks, paths.

Every other package may import from this one. It also has all uses of private interfaces.
"""
