"""Text that reads like an instruction to a model: it is kept as data, flagged and untrusted.

A flag, not a filter: the words come back as they are, and whoever puts them before
a model knows. Such a candidate is never promoted but by a person.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_ENGLISH: Final = (
    r"\b(?:ignore|disregard|forget|override|bypass)\b[^.\n]{0,40}\b(?:previous|prior|above|earlier|all|your|any|the)\b"
    r"[^.\n]{0,40}\b(?:instructions?|prompts?|rules?|guidelines?|policies|policy|directives?|messages?)\b",
    r"\b(?:do not|don't|never)\b[^.\n]{0,20}\b(?:tell|inform|mention|reveal)\b[^.\n]{0,30}\b(?:the )?user\b",
    r"\byou (?:are|must|will|should) (?:now|from now on)\b",
    r"\byou are no longer\b",
    r"\bfrom now on,? (?:you|always|never|act|respond|answer)\b",
    r"\b(?:act|behave|respond|pretend) as (?:if|though|an? (?:unrestricted|jailbroken|different))\b",
    r"\b(?:new|updated|real) (?:system )?(?:instructions?|prompt)\b\s*:",
    r"\b(?:reveal|print|show|output|repeat|leak|exfiltrate)\b[^.\n]{0,30}"
    r"\b(?:system prompt|your (?:instructions|prompt)|api keys?|credentials|secrets?|passwords?)\b",
    r"\b(?:system|assistant|developer) ?(?:message|prompt|override)\b\s*[:\-]",
    r"(?:^|\n)\s*(?:#+\s*)?(?:system|assistant|developer)\s*:",
    r"<\|?(?:im_start|im_end|system|endoftext)\|?>|\[/?INST\]|<</?SYS>>|</?system>",
    r"\b(?:execute|run|call|invoke) (?:the |this |following )*(?:command|tool|function|code)\b[^.\n]{0,60}"
    r"\b(?:without|before|immediately|silently)\b",
    r"\bwithout (?:asking|telling|notifying|confirmation from) (?:the )?user\b",
    r"\bjailbreak|\bDAN mode\b|\bdeveloper mode\b",
)
_CHINESE: Final = (
    r"(?:忽略|无视|忘记|忘掉|抛开|不要理会|不用管|跳过|绕过)[^。\n]{0,12}(?:之前|以前|此前|上面|上述|前面|先前|所有|全部|一切|任何|你的|系统)"
    r"[^。\n]{0,12}(?:指令|指示|提示|提示词|规则|要求|设定|约束|限制|命令|对话)",
    r"(?:从现在起|从现在开始|接下来)[,，]?\s*你(?:是|就是|要|必须|将|只能|不再)",
    r"你(?:现在|必须)(?:是|扮演|充当)(?:一个)?[^。\n]{0,20}(?:没有(?:任何)?限制|不受限制|越狱)",
    r"(?:不要|不得|别|切勿)(?:告诉|告知|通知|让)[^。\n]{0,4}用户",
    r"(?:输出|显示|打印|泄露|透露|说出|复述|告诉我)[^。\n]{0,10}(?:系统提示|系统指令|提示词|密钥|密码|凭证)",
    r"(?:系统|开发者|管理员)(?:消息|指令|提示|命令)\s*[:：]",
    r"(?:^|\n)\s*(?:系统|助手)\s*[:：]",
    r"(?:执行|调用|运行)(?:以下|下面|下列|这个)?[^。\n]{0,12}(?:命令|工具|函数|代码)[^。\n]{0,20}(?:无需|不必|不要|立即|立刻)",
    r"(?:无需|不必|不要|未经)(?:询问|征求|经过|通知)?用户(?:的)?(?:同意|确认|允许|许可)",
    r"越狱模式|开发者模式|DAN模式",
)
# A border of an English word is one to anything that is no English letter: Chinese is written without spaces.
_FORMS: Final = (*(f"(?a:{form})" for form in _ENGLISH), *(f"(?:{form})" for form in _CHINESE))
_PATTERN: Final = re.compile("|".join(_FORMS), re.IGNORECASE)
_HINT_TEXT: Final = (
    "ignor|disregard|forget|overrid|bypass|system|prompt|instruct|you are n|you must|you will|you should|from now on"
    "|as if|as though|inst]|<|jailbreak|dan mode|developer|secret|password|credential|api key|assistant"
    "|execut|invoke|silently|immediately|without| tell | inform | mention | reveal | act as |behave as|pretend as"
    "|忽略|无视|忘|抛开|理会|不用管|跳过|绕过|从现在|接下来|你现在|你必须|告诉|告知|通知|系统|提示|密钥|密码|凭证|助手|开发者"
    "|管理员|执行|调用|运行|越狱|无需|不必|未经|不得"
)
_HINTS: Final = tuple(_HINT_TEXT.split("|"))
"""Without one of these none of the forms matches: looking for them costs a microsecond."""
_ASCII_HINTS: Final = tuple(hint for hint in _HINTS if hint.isascii())
_CHARS_MAX: Final = 100_000


def instruction_like(text: str) -> bool:
    """Tell whether the text tries to instruct a model; zero-width and full-width disguises do not help it."""
    if text.isascii():
        plain = text
    else:
        folded = unicodedata.normalize("NFKC", text[:_CHARS_MAX])
        plain = "".join(char for char in folded if unicodedata.category(char) != "Cf")
    lower = plain.lower()
    for hint in _ASCII_HINTS if lower.isascii() else _HINTS:
        if hint in lower:
            return _PATTERN.search(plain) is not None
    return False
