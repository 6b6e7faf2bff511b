"""Pure decisions: no await, no clock, no I/O; time is always an argument."""
