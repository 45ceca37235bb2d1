"""The process of a run: signals, memory, repeating threads, time per phase, crash points for tests."""
