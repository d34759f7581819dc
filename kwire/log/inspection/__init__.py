"""Looks at a log's files from outside, for `kwire log`: reads only, believes nothing, holds little in memory.

Nothing here writes or repairs, and no broker uses it: a file is opened for reading alone, on a copy or on the
directory of a broker that is stopped.
"""
