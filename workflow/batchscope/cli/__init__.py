"""The command line: what users type, and the steps that the workflow's rules call.

Each command imports what it needs when it runs. Nothing is computed here.
"""
