"""One run by a command of the user's: it is started, watched and judged, and its record is written.

What the command is given is planned in batchscope.study.commands, and its tables are made from the
record and from the evaluations beside it in batchscope.tables. No command is a shell's.
"""
