import pytest
from memoryos_core.words import words_of


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Send it to Mark.Black-2134@gmail.com!", {"send", "it", "to", "mark", "black", "2134", "gmail", "com"}),
        ("把第３个文件删除", {"把第", "3", "个文", "文件", "件删", "删除"}),
        ("给 A 发邮件abc", {"给", "a", "发邮", "邮件", "abc"}),
        ("ＡＢＣ abc_def", {"abc", "def"}),
        ("e\u0301t\u00e9", {"\u00e9t\u00e9"}),
        (" \u200b…!", set()),
    ],
)
def test_words(text, words):
    assert words_of(text) == words
