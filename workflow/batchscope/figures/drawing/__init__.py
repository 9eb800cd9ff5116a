"""What figures share: canvas, axes, panels of timings, words.

A figure of its own is a module beside this package.
"""
