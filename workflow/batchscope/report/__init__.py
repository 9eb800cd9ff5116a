"""The report: tables, figures and records of a study -> one self-contained HTML page.

`report_inputs` reads the inputs, `study_page` puts the page together, and a module per
section turns rows of tables into the values of its template. batchscope.figures draws and
batchscope.analysis computes.
The page's Content-Security-Policy forbids every request.
"""
