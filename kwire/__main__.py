"""The `kwire` command, which `python -m kwire` is, too."""

import gc
import os
import signal
import sys


def main() -> None:
    """Run it. Ctrl-C while its modules are loaded ends it as it ends any command, without a traceback."""
    _open_standard_streams()
    # Who starts it may have it ignored, or handled by what is not Python.
    is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_default:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.disable()  # what modules are made of stays: to look through it again and again takes a sixth of the time
    from kwire.cli import main as command  # noqa: PLC0415 this is what takes its time

    gc.enable()
    if is_default:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        command(prog_name="kwire")
    except OSError as error:  # of files each command tells itself
        if error.filename is not None:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is still buffered would fail again at the end
        sys.stderr.write(f"kwire: standard output: {error.strerror}\n")
        sys.exit(1)


def _open_standard_streams() -> None:
    """Whoever starts it may have closed some; their descriptors would be those of files and sockets then."""
    for descriptor, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest that is free
            setattr(sys, name, os.fdopen(descriptor, mode, closefd=False))


if __name__ == "__main__":
    main()
