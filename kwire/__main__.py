"""The `kwire` command, which `python -m kwire` is, too."""

import signal


def main() -> None:
    """Run it. Ctrl-C while its modules are loaded ends it as it ends any command, without a traceback."""
    interrupted = signal.getsignal(signal.SIGINT)
    if interrupted is signal.default_int_handler:  # who starts it may have it ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from kwire.cli import main as command  # noqa: PLC0415 this is what takes its time

    signal.signal(signal.SIGINT, interrupted)
    command(prog_name="kwire")


if __name__ == "__main__":
    main()
