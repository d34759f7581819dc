"""The `kwire` command, which `python -m kwire` is, too."""

import signal


def main() -> None:
    """Run it. Ctrl-C while its modules are loaded ends it as it ends any command, without a traceback."""
    # Who starts it may have it ignored, or handled by what is not Python.
    is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_default:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from kwire.cli import main as command  # noqa: PLC0415 this is what takes its time

    if is_default:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    command(prog_name="kwire")


if __name__ == "__main__":
    main()
