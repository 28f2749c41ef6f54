"""An S3-compatible bucket as a store, through obstore (object_store in Rust).

It is one wheel without dependencies, uploads from a buffer without holding the GIL, reads credentials from the
standard environment, web identity and instance metadata, and is imported here only.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rtj.errors import ConfigurationError, NotFoundError, StoreRefusedError, StoreUnavailableError
from rtj.stores.interface import Bytes, Entry

if TYPE_CHECKING:
    from obstore.store import S3Config

# One request carries at most an object of 32 MiB: enough at 1.1 MB/s, and what hangs is tried again soon.
_REQUEST_TIMEOUT = "30s"
_CONNECT_TIMEOUT = "5s"

# Any of these says where credentials come from.
_CREDENTIALS = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)

# Error codes of the S3 API that no repetition cures.
_PERMANENT = (
    "NoSuchBucket",
    "AccessDenied",
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "InvalidBucketName",
    "PermanentRedirect",
    "AuthorizationHeaderMalformed",
    "QuotaExceeded",
    "ExpiredToken",
)


class S3Store:
    """Objects in a bucket. An object is one PUT, so that its ETag is known at once and nothing is half there."""

    def __init__(self, bucket: str, prefix: str, *, endpoint: str = "", region: str = "") -> None:
        try:
            from obstore.store import S3Store as Client
        except ImportError as err:
            raise ConfigurationError(f"s3:// needs the package obstore (pip install obstore): {err}") from err
        config: S3Config = {
            "region": region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
        }
        if endpoint and not any(os.environ.get(name) for name in _CREDENTIALS):
            # Otherwise the client would ask a cloud's metadata service, which such a server has nothing to do with.
            raise ConfigurationError(
                f"no credentials for {endpoint}: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY "
                "(on a cluster: spec.checkpoint.storage.credentials.secretName)"
            )
        if endpoint:
            config["endpoint"] = endpoint
            # Servers behind a plain address know no bucket host names.
            config["virtual_hosted_style_request"] = False
        self._bucket = bucket
        self._prefix = prefix + "/" if prefix else ""
        self._endpoint = endpoint
        self._client = Client(
            bucket,
            config=config,
            client_options={
                "allow_http": endpoint.startswith("http://"),
                "timeout": _REQUEST_TIMEOUT,
                "connect_timeout": _CONNECT_TIMEOUT,
            },
            # Tries are counted in one place, which also knows the deadline: rtj.stores.retrying.
            retry_config={"max_retries": 0},
        )

    @property
    def where(self) -> str:
        """The bucket, and the endpoint if it is not the provider's."""
        at = f" at {self._endpoint}" if self._endpoint else ""
        return f"s3://{self._bucket}/{self._prefix.rstrip('/')}{at}"

    def put(self, key: str, data: Bytes) -> str:
        """Upload an object in one request."""
        try:
            result = self._client.put(self._prefix + key, data, use_multipart=False)
        except Exception as err:
            raise self._translated(err, "write", key) from err
        return _plain(result["e_tag"])

    def get(self, key: str) -> bytes:
        """Download an object."""
        try:
            return bytes(self._client.get(self._prefix + key).bytes())
        except Exception as err:
            raise self._translated(err, "read", key) from err

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Download a part of an object."""
        if length == 0:
            return b""
        try:
            return bytes(self._client.get_range(self._prefix + key, start=start, length=length))
        except Exception as err:
            raise self._translated(err, "read", key) from err

    def list(self, prefix: str) -> Iterator[Entry]:
        """List a prefix, page by page."""
        try:
            for page in self._client.list(self._prefix + prefix):
                for meta in page:
                    yield Entry(meta["path"][len(self._prefix) :], meta["size"], _plain(meta["e_tag"]))
        except Exception as err:
            raise self._translated(err, "list", prefix) from err

    def delete(self, key: str) -> None:
        """Delete an object."""
        try:
            self._client.delete(self._prefix + key)
        except FileNotFoundError:
            return
        except Exception as err:
            raise self._translated(err, "delete", key) from err

    def _translated(self, err: Exception, verb: str, key: str) -> Exception:
        text = str(err)
        message = f"cannot {verb} {key} in {self.where}: {_brief(text)}"
        if "NoSuchBucket" in text:
            return StoreRefusedError(f"{message}; create the bucket or correct the storage URI")
        if isinstance(err, FileNotFoundError):
            return NotFoundError(message)
        # Exceptions of obstore by name, so that this module's import stays the only one of it.
        if type(err).__name__ in ("PermissionDeniedError", "UnauthenticatedError") or any(
            f"<Code>{code}</Code>" in text for code in _PERMANENT
        ):
            return StoreRefusedError(
                f"{message}; check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and the bucket's policy"
            )
        return StoreUnavailableError(message)


def _plain(etag: str | None) -> str:
    return (etag or "").removeprefix("W/").strip('"')


def _brief(text: str) -> str:
    """Return the first line, and the error's code and message where the server sent them."""
    head = text.split("<?xml")[0].split("\n")[0].strip().rstrip(":")
    parts = [text.split(f"<{tag}>")[1].split(f"</{tag}>")[0] for tag in ("Code", "Message") if f"<{tag}>" in text]
    return " ".join([head, *parts])[:400]
