"""Functions that the workflow's rules call. They compute no results."""
