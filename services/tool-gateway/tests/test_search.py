"""SearchSkills: words and meaning, in Chinese and English, over what the caller may see."""

from collections.abc import Sequence

import numpy as np
import pytest
from memoryos_models.build import build_embedder
from memoryos_models.config import ModelsSection
from memoryos_models.errors import ModelUnavailable
from memoryos_models.ports import Embedder, Vectors
from memoryos_toolgateway.domain.request_steps import needs, steps
from memoryos_toolgateway.domain.skill import Skill
from memoryos_toolgateway.domain.skill_index import Findable, Query, SkillIndex
from memoryos_toolgateway.domain.skill_words import words
from memoryos_toolgateway.operations.search_skills import SkillSearch

from .policies import InMemoryPolicy
from .test_requests_and_results import skill

SKILLS = (
    skill(name="ticket.delete", description="Deletes one ticket for good.", definition_digest="1"),
    skill(name="getCustomerById", description="Reads one customer of the CRM.", definition_digest="2"),
    skill(name="mes.takt_time", description="Reads the present takt time of a production line.", definition_digest="3"),
    skill(name="mail.send", description="发送一封电子邮件给收件人。", definition_digest="4"),
    skill(name="weather", description="Tells the weather forecast of a city.", definition_digest="5"),
)


class Away(Embedder):
    """An embedder that does not answer."""

    model_id = "away"
    dimensions = 4
    asked = 0

    async def embed(self, texts: Sequence[str], *, deadline_s: float) -> Vectors:
        self.asked += 1
        raise ModelUnavailable("away")

    async def close(self) -> None:
        pass


class Sees(InMemoryPolicy):
    """A policy that shows some skills."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.names = names

    async def visible(self, skills: Sequence[Skill]) -> list[bool]:
        return [each.name in self.names for each in skills]


def names(found: Sequence[tuple[Skill, float]]) -> list[str]:
    return [each.name for each, _ in found]


def test_names_are_taken_apart_and_words_stemmed():
    assert words("getUserByID user_ids HTTPServer") == ["get", "user", "id", "user", "id", "http", "server"]
    assert words("查询客户") == ["查询", "询客", "客户"]
    assert words("ＡＰＩ v2") == ["api", "v2"]


def test_requests_are_taken_apart_by_steps():
    assert steps("Delete the ticket.") == []
    assert steps("Find the weather in Rome, then send it by mail to Ada.") == [
        "Find the weather in Rome", "send it by mail to Ada.",
    ]  # fmt: skip
    assert len(steps("查询客户资料,然后发送邮件给他")) == 2


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("please remove that ticket permanently", "ticket.delete"),
        ("look up a customer", "getCustomerById"),
        ("how fast is line A producing?", "mes.takt_time"),
        ("给小王发邮件", "mail.send"),
        ("send an e-mail", "mail.send"),
        ("明天上海天气怎么样", "weather"),
    ],
)
async def test_skills_are_found_by_words_and_by_meaning_across_languages(query: str, expected: str):
    embedder = build_embedder(ModelsSection())
    search = SkillSearch(SKILLS, Sees(*(each.name for each in SKILLS)), embedder)
    assert await search.ready()
    found, words_only = await search.search(query, 3)
    assert names(found)[0] == expected
    assert not words_only
    assert all(0 <= score <= 1 for _, score in found)
    await search.close()
    await embedder.close()


@pytest.mark.parametrize(
    ("request_text", "implied"),
    [
        ("Summarise the page and save it in /home/ada/notes.md", ["write file"]),
        ("Read /home/ada/report.docx", ["read word document"]),
        ("把销售数据写入 /home/ada/sales.xlsx", ["save excel spreadsheet"]),
        ("查询明天从北京到上海的车票", ["get the current date and time"]),
        ("Open https://example.com/page.html and go to 3.5", []),
    ],
)
def test_files_and_relative_dates_are_needs_of_their_own(request_text: str, implied: list[str]):
    assert needs(request_text)[1:] == implied


async def test_each_need_has_its_skill_among_the_first_and_the_system_counts():
    skills = (
        *SKILLS,
        skill(name="weather.now", description="Tells the weather of a city now.", definition_digest="6"),
        skill(name="weather.week", description="Tells the weather of a city for a week.", definition_digest="7"),
        skill(name="query", description="Runs a query.", system="铁路. 火车票与车次", definition_digest="8"),
    )
    embedder = build_embedder(ModelsSection())
    search = SkillSearch(skills, Sees(*(each.name for each in skills)), embedder)
    for ready in (False, True):
        assert not ready or await search.ready()
        found, _ = await search.search("Tell the weather of the city. Then delete the ticket.", 2)
        assert "ticket.delete" in names(found)
        assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)
        found, _ = await search.search("查询天气,然后发送一封电子邮件", 3)
        assert "mail.send" in names(found)
        found, _ = await search.search("火车票", 1)
        assert names(found) == ["query"]
    await search.close()
    await embedder.close()


async def test_only_what_the_caller_may_see_is_found_or_counts():
    few, all_of_them = Sees("weather", "mail.send"), Sees(*(each.name for each in SKILLS))
    found, _ = await SkillSearch(SKILLS, few, Away()).search("ticket weather mail", 10)
    alone, _ = await SkillSearch([SKILLS[3], SKILLS[4]], all_of_them, Away()).search("ticket weather mail", 10)
    assert sorted(names(found)) == ["mail.send", "weather"]
    assert [score for _, score in found] == [score for _, score in alone], "a hidden skill moves no score"
    assert await SkillSearch(SKILLS, Sees(), Away()).search("ticket", 10) == ([], True)


async def test_without_the_embedder_words_decide_and_say_so():
    away = Away()
    search = SkillSearch(SKILLS, Sees(*(each.name for each in SKILLS)), away)
    found, words_only = await search.search("delete ticket", 10)
    assert (names(found)[0], words_only) == ("ticket.delete", True)
    assert not await search.ready()
    assert away.asked >= 1
    assert (await search.search("nothing of the kind whatsoever xyzzy", 10))[0] == []
    await search.close()


def test_hostile_queries_are_only_words():
    index = SkillIndex([Findable(s.name, s.description, s.parameters_json) for s in SKILLS])
    shown = np.ones(len(SKILLS), dtype=np.bool_)
    for text in ("", " ", "\x00", "(" * 5000, "a" * 8192, "\u202e", "🙂" * 100, "' OR 1=1 --"):
        assert isinstance(index.search(Query(tuple(needs(text)), None), None, shown, 5), list)
