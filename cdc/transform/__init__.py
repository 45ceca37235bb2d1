"""Transform rules: SQL text compiled to checked, typed expressions and evaluated on the columns of change blocks.

    text -> parse -> syntax tree with positions -> check against a table schema -> typed tree -> engine SQL -> rule

Independent of Spark and connectors. Tasks use the compiled rule; everything before it runs once per (rule, schema).
"""
