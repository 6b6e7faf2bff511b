"""Every case of rooms on one instance and on two."""

import pytest


@pytest.fixture(params=(1, 2), ids=("one", "two"))
def instances(request):
    """Give how many instances there are; guests come to them in turn."""
    return request.param
