"""The process that a run is: its signals, memory, threads that repeat, time by phase, crash points for tests."""
