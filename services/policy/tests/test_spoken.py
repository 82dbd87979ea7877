"""Which arguments a user has said, and which addresses and URLs they have named."""

import pytest
from memoryos_core.words import said_words
from memoryos_policy.domain.spoken import TEXT_CHARS_MAX, TEXTS_MAX, named, said, texts_of


def heard(text: str) -> set[str]:
    return said_words(text)


def test_texts_are_found_wherever_they_stand() -> None:
    arguments = {"to": ["amy@x.com", {"cc": "bob"}], "a/b": {"~": "amy"}, "n": 3, "flag": True, "none": None}
    words = heard("send it to amy")
    assert said(texts_of(arguments), words) == ["/a~1b/~0"]
    assert said(texts_of(arguments), words | heard("amy@x.com, Bob")) == ["/a~1b/~0", "/to/0", "/to/1/cc"]
    assert said(texts_of({"x": "", "y": " !? "}), words) == []


@pytest.mark.parametrize(
    ("spoken", "text"),
    [
        ("mail sarah connor", "sarah.connor@gmail.com"),
        ("ask BOB", "bob@example.org"),
        ("看看 my-website.com", "http://www.my-website.com/a?b=c#d"),
        ("open my-website.com", "my-website.com/login"),
        ("open example.org", "https://example.org:8443"),
        ("报告 发给 王芳", "王芳@example.com"),
        ("go to 例子.公司", "https://例子.公司/路径"),
    ],
)
def test_an_address_is_named_by_its_local_part_and_a_url_by_its_host(spoken: str, text: str) -> None:
    assert named(texts_of({"x": text}), heard(spoken)) == ["/x"]
    assert named(texts_of({"x": text}), heard("something else")) == []


@pytest.mark.parametrize(
    "text",
    [
        "bob",
        "ask bob",
        "bob@",
        "@example.org",
        "bob@evil.com, amy@x.com",
        "bob <evil@evil.com>",
        "http://example.org@evil.com/",
        "http://evil.com\\@example.org/",
        "http://example.org\n.evil.com",
        "http://evil.com/example.org",
        "http://evil.com?example.org",
        "http://example.org.evil.com",
        "ftp://example.org",
        "javascript:example.org",
        "//example.org",
        "http://[::1]/example.org",
        "http://example.org:99999:1",
        "",
    ],
)
def test_what_could_be_read_otherwise_is_not_named(text: str) -> None:
    assert named(texts_of({"x": text}), heard("bob example org")) == []


@pytest.mark.parametrize(
    ("spoken", "text"),
    [
        ("please send this report to amy@x.com today", "send@this.report"),
        ("please send this report to amy@x.com today", "please@send.today"),
        ("read http://x.com and this report", "https://read.this.report/"),
        ("read this report over http", "http://read.this.report"),
        ("send this report", "send@this\u3002report"),
        ("send this report", "send\uff20this\uff0ereport"),
        ("看看 例子 发给 公司", "http://例子.公司"),
        ("93 of 184, 216 or 34", "http://93.184.216.34/"),
        ("mail amy@x.com", "amy@x.com.evil.x"),
        ("delete it", "de\u200blete"),
        ("delete it", "d\u0435lete"),
        ("delete it", "dele\u0337te it"),
    ],
)
def test_words_said_here_and_there_say_no_address_and_no_other_spelling(spoken: str, text: str) -> None:
    for words in (heard(spoken), heard(spoken) | {"http", "https"}):
        assert said(texts_of({"x": text}), words) == []
        assert named(texts_of({"x": text}), words) == [] or text.startswith(
            ("send", "please", "amy")
        )  # its local part was


@pytest.mark.parametrize(
    ("spoken", "text"),
    [
        ("Mail Amy@X.com.", "amy@x.com"),
        ("Mail amy@x.com.They know.", "amy@x.com"),
        ("发给amy@x.com谢谢", "amy@x.com"),
        ("open https://www.x.com/a, please", "https://www.x.com/a"),
        ("请打开 例子.公司", "例子.公司"),
        ("write to ａｍｙ\uff20ｘ\uff0eｃｏｍ", "amy@x.com"),
    ],
)
def test_an_address_that_was_said_is_said(spoken: str, text: str) -> None:
    assert said(texts_of({"x": text}), heard(spoken)) == ["/x"]


def test_there_is_an_end_to_what_is_looked_at() -> None:
    words = heard("yes")
    assert said(texts_of(["yes"] * (TEXTS_MAX + 5)), words) == [f"/{n}" for n in range(TEXTS_MAX)]
    long = "yes " * TEXT_CHARS_MAX
    assert said(texts_of({"long": long, "z": "yes"}), words) == ["/z"]
