"""What a test expects of an error: its fields, so that its wording can improve."""

from collections.abc import Callable
from unittest.mock import ANY

from unweave.errors import UnweaveError

__all__ = ["about"]


def about(subject: object = ANY, value: object = ANY) -> Callable[[BaseException], bool]:
    """For `pytest.raises(DataError, check=about("models", 3))`: what the error is about."""

    def check(error: BaseException) -> bool:
        assert isinstance(error, UnweaveError)
        assert (error.subject, error.value) == (subject, value)
        return True

    return check
