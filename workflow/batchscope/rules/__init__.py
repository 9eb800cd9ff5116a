"""Functions that the workflow's rules call: targets, inputs, resources, start and end of a call.

Nothing here computes a result. The rules state outputs, logs and commands themselves.
"""
