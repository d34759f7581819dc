import pytest

from kwire.protocol.error_codes import ErrorCode, KafkaError

RETRIABLE = {
    *(2, 3, 5, 6, 7, 9, 13, 14, 15, 16, 19, 20, 41, 51, 56, 70, 71, 72, 74, 75, 78, 80, 83, 84, 88, 89, 100, 103, 106),
    *(122, 123, 133),
}
"""Retriable codes of Apache Kafka 4.3.1's Errors: its exceptions that extend RetriableException."""


def test_the_table_is_complete() -> None:
    assert [int(code) for code in ErrorCode] == list(range(-1, 134))


def test_retriable_codes_are_kafkas() -> None:
    assert {int(code) for code in ErrorCode if code.retriable} == RETRIABLE


@pytest.mark.parametrize("code", ErrorCode)
def test_each_error_code_has_a_message(code: ErrorCode) -> None:
    assert code.meaning
    assert not code.meaning.endswith(".")
    assert ErrorCode(int(code)) is code


def test_an_error_carries_code_and_message() -> None:
    assert str(KafkaError(ErrorCode.INVALID_CONFIG, "no such key")) == "INVALID_CONFIG: no such key"
    error = KafkaError(ErrorCode.NOT_COORDINATOR)
    assert (error.code, error.message) == (16, None)
    assert ErrorCode.NOT_COORDINATOR.meaning in str(error)


@pytest.mark.parametrize("number", [-256, -2, 400, 32767])
def test_an_unknown_error_code_is_unknown_server_error(number: int) -> None:
    assert ErrorCode(number) is ErrorCode.UNKNOWN_SERVER_ERROR
    with pytest.raises(ValueError, match="not a valid"):
        ErrorCode("1")  # type: ignore[arg-type]
