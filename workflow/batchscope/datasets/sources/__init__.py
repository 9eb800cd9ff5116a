"""Sources of data, one module each: the definition, facts known when planning, and the reader.

`batchscope.study.dataset_definitions` lists this package and collects every `DataSource` that
has a field `source`: a new source is one new module. Code that several sources share is in
`batchscope.datasets`, such as `photographs` and `labels`.
"""
