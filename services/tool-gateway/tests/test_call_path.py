"""The one call path on a real journal and a real upstream."""

import pytest

from .bench import Bench, skill_document, write_skills
from .policies import allow

pytestmark = pytest.mark.integration


async def test_an_allowed_call_is_made_once_and_its_result_kept(bench: Bench):
    write_skills(bench.folder, skill_document("do", "ok"))
    bench.policy.rules["do"] = allow
    first = await bench.call("do", name="a")
    again = await bench.call("do", name="a")
    assert (first.state, first.result) == ("SUCCEEDED", b'{"done":"a","times":1}')
    assert again == first
    assert bench.upstream.effects == {"a": 1}
