"""Sources of data: each module has the definition, the facts for planning, and the reader of one.

A new source is a new module with a `DataSource` that has a field `source`.
`batchscope.study.dataset_definitions` collects them. Code that several sources share is in
`batchscope.datasets`, such as `conversion` and `splits`.
"""
