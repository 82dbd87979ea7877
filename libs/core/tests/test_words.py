import pytest
from memoryos_core.words import spoken_words, words_of


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


@pytest.mark.parametrize(
    ("text", "wholes"),
    [
        ("Send it to Alice@acme.com.", {"alice@acme.com"}),
        ("发给wang@acme.com谢谢", {"wang@acme.com"}),
        ("open www.x-y.com/a?b=c.d", {"x-y.com", "c.d"}),
        ("go to 例子.公司", {"例子.公司"}),
        ("it costs 3.5 or -2.", set()),
        ("http://93.184.216.34/", {"93.184.216.34"}),
        ("this\u3002report", {"this.report"}),
    ],
)
def test_an_address_is_one_word_more(text, wholes):
    assert spoken_words(text) - words_of(text) == wholes
