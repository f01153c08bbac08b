"""What tests of checkpoints share: a run that is interrupted where it offers its state, and a disk that is full."""

import errno
import os

from covopt.checks.kept import KeptFile


def interrupt_at(monkeypatch, count):
    """Interrupt a run at the state that it offers so many times; return the states."""
    seen, offer = [], KeptFile.offer

    def interrupting(self, content):
        offer(self, content)
        seen.append(content)
        if len(seen) == count:
            raise KeyboardInterrupt

    monkeypatch.setattr(KeptFile, "offer", interrupting)
    return seen


def fill_disk(monkeypatch, name="covopt.checks.kept.write_json"):
    """Let every write by a function of this name fail."""

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(name, full)
