"""Transform rules: SQL text to a checked, typed expression, evaluated on the Arrow columns of a change block.

    text -> parse -> syntax tree with positions -> check against a table schema -> typed tree -> engine SQL -> rule

Pure: no Spark, no connector. `rule` is what a task uses; everything before it runs once per (rule, schema).
"""
