"""The pure middle of a pipeline: what happens to a batch between source and sink. No Spark, no connector in it."""
