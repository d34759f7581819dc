"""Offline inspection of log files, for `kwire log`: read-only, without trust in the content, in little memory.

Nothing here writes or repairs, and no broker uses it. Files are opened for reading only, in a copy or in the directory
of a stopped broker.
"""
