"""What the workflow's rules call by name: targets, inputs, resources, start and end of a call.

Nothing here computes a result. The rules state outputs, logs and commands themselves.
"""
