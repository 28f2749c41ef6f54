"""What can go wrong, as types. Every message says what, where, and what to do."""

from __future__ import annotations

from rtj import exitcodes


class Error(Exception):
    """The base of all errors that this package raises on purpose."""


class ConfigurationError(Error):
    """The environment or the arguments of :func:`rtj.start` do not fit together."""


class UnsupportedValueError(Error):
    """The state holds a value that cannot be stored; the message names its path."""


class FormatError(Error):
    """A document of the store or of the cluster is not what docs/formats.md says."""


class StoreError(Error):
    """The base of the errors of a store."""


class NotFoundError(StoreError):
    """There is no object of that key."""


class StoreUnavailableError(StoreError):
    """The store did not answer, or answered that it cannot now. Such calls are tried again."""


class StoreRefusedError(StoreError):
    """The store answers, and refuses: credentials, bucket, permissions, no space. Trying again is no use."""


class SaveError(Error):
    """A checkpoint could not be committed."""


class RestoreError(Error):
    """The checkpoint could not be restored.

    ``cause`` is one of the causes of a result record: ``checksumMismatch``, ``missing``, ``outOfMemory``,
    ``incompatible``, ``storeError``, ``other``. ``object`` is the key below the run, or None.
    """

    def __init__(self, message: str, *, cause: str, object: str | None = None) -> None:
        super().__init__(message)
        self.cause = cause
        self.object = object


class StateMismatchError(RestoreError):
    """The state that the program built is not the one that was saved: names, shapes, dtypes or ranks differ."""

    def __init__(self, message: str) -> None:
        super().__init__(message, cause="incompatible")


class DamagedCheckpointError(RestoreError):
    """An object of the checkpoint is proven missing, or its bytes are proven wrong (seen twice)."""


class NoUsableCheckpointError(RestoreError):
    """There are checkpoints, and none of them can be used. Without a cluster only; the message has each reason."""

    def __init__(self, message: str) -> None:
        super().__init__(message, cause="incompatible")


class RestoreIgnoredError(Error):
    """The attempt was to continue a checkpoint, and the program began to train without restoring it."""


class AgreementError(Error):
    """The ranks could not agree: one is gone, or they did different things."""


class Yielded(SystemExit):
    """Raised by ``job.step()`` after the checkpoint of a yield is committed: leave, with code 0.

    A SystemExit, so that ``finally`` blocks run and ``except Exception`` does not catch it.
    """

    def __init__(self, message: str) -> None:
        super().__init__(0)
        self.message = message

    def __str__(self) -> str:
        return self.message


class YieldNotServiced(SystemExit):
    """Raised when a yield was asked and no checkpoint could be committed for it: leave, with code 76."""

    def __init__(self, message: str) -> None:
        super().__init__(exitcodes.NOT_SERVICED)
        self.message = message

    def __str__(self) -> str:
        return self.message
