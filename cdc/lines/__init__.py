"""Change logs as JSON lines, which people can write and read: the format, and a source over such lines"""
