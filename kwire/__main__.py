"""Entry point of the `kwire` command, also run by `python -m kwire`."""

import gc
import os
import signal
import sys


def main() -> None:
    """Run the command. Ctrl-C during the import of its modules ends it without a traceback, like any command."""
    _open_standard_streams()
    # The parent process may have set SIGINT to be ignored, or another library to be handled outside of Python.
    is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_default:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.disable()  # objects of modules stay alive: repeated collections would take a sixth of the time
    from kwire.cli import main as command  # noqa: PLC0415 this import takes most of the time

    gc.enable()
    if is_default:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        command(prog_name="kwire")
    except OSError as error:  # commands report errors of files themselves
        if error.filename is not None:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # else buffered output would fail again at exit
        sys.stderr.write(f"kwire: standard output: {error.strerror}\n")
        sys.exit(1)


def _open_standard_streams() -> None:
    """Open closed standard streams, because files and sockets would otherwise get their descriptors."""
    for descriptor, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free descriptor
            setattr(sys, name, os.fdopen(descriptor, mode, closefd=False))


if __name__ == "__main__":
    main()
