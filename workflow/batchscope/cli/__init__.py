"""The command line: commands of users, and the steps that the workflow's rules call.

A command imports its modules when it runs. Other packages compute.
"""
