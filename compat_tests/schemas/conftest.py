import pytest

from compat_tests.schemas.jars import read_schemas


@pytest.fixture(scope="session")
def schemas():
    return read_schemas()
