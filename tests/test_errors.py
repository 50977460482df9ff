from __future__ import annotations

import pytest

from m3dphormer.errors import UserNotice, notice, unknown


def test_an_unknown_name_offers_near_ones_or_all() -> None:
    known = ["cora", "citeseer", "pubmed"]
    assert str(unknown("dataset", "coar", known)) == "Unknown dataset 'coar'. Did you mean cora?"
    assert str(unknown("dataset", "zzz", known)) == (
        "Unknown dataset 'zzz'. Known: citeseer, cora, pubmed."
    )


def test_a_notice_is_a_warning_of_its_own_kind() -> None:
    with pytest.warns(UserNotice, match="no features"):
        notice("no features")
