"""The files of finished work: their records, which exist and which are missing.

How a file is read and written safely is in batchscope.disk; what is in it comes from its step.
"""
