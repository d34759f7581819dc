"""Node: what a process has once, in any role."""
