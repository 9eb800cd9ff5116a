"""Errors and problems for users, formatted numbers, atomic files, and paths of the project.

Every other package imports from this one. It also holds all uses of private interfaces.
"""
