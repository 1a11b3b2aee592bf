import pytest

from taskrunner.errors import UsageProblem
from taskrunner.versions import fits, version_tuple


@pytest.mark.parametrize(
    ("version", "spec", "expected"),
    [
        ((3, 11, 7), ">=3.11,<3.14", True),
        ((3, 14, 0), ">=3.11,<3.14", False),
        ((3, 10, 13), ">=3.11,<3.14", False),
        ((3, 11), ">=3.11.0", True),
        ((3, 12, 4), "3.12.*", True),
        ((3, 1, 2), "3.12.*", False),
        ((3, 12, 4), "=3.12", True),
        ((3, 12, 4), "==3.12", False),
        ((3, 12, 0), "==3.12", True),
        ((3, 13, 1), "!=3.13.1", False),
        ((3, 13, 2), ">3.13.1,<=3.13.2", True),
        ((9, 9), "*", True),
    ],
)
def test_specifications(version, spec, expected):
    assert fits(version, spec) is expected


def test_a_form_that_cannot_be_read_is_an_error():
    with pytest.raises(UsageProblem, match=r"cannot read.*~"):
        fits((3, 11), "~=3.11")


def test_version_tuple_keeps_numbers_only():
    assert version_tuple("13.0.1") == (13, 0, 1)
