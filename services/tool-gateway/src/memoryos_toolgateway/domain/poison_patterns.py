"""Phrases, English and Chinese, with which a definition speaks to the model instead of saying what a tool does.

TEXT_PATTERNS are searched in the text as `poison.as_read` gives it (folded,
one space between words), RAW_PATTERNS in the text as it stands. Every `.{0,n}`
is bounded.
"""

from __future__ import annotations

import re
from typing import Final

_THOSE: Final = (
    r"(?:(?:all|any|the|your|my|these|those|of|every|other|previous|prior|above|earlier|preceding|former)\W+)"
)
_WHO: Final = (
    r"(?:(?:the|your|any|an?)\W+)?(?:end[- ]?)?(?:user|users|human|humans|person|customer|operator|client|anyone)"
)
_SECRETS: Final = (
    r"(?:~/|\.ssh\b|id_rsa|id_ed25519|/etc/(?:passwd|shadow)|\.aws/|mcp\.json|\.env\b|private keys?|credentials?"
    r"|passwords?|api[ _-]?keys?|access tokens?|secrets?|system prompt|conversation|chat history"
    r"|密钥|私钥|密码|口令|凭证|凭据|令牌"
    r"|系统提示|聊天记录|对话(?:内容|历史|记录))"
)
_READ: Final = r"(?:read|open|cat|load|fetch|get|list|retrieve|access|collect|copy|include|send|pass|upload|attach)"
_LEAVE: Final = r"(?:send|post|upload|forward|transmit|submit|report|leak|exfiltrate|copy|append|relay)"

TEXT_PATTERNS: Final[tuple[tuple[str, re.Pattern[str], str], ...]] = tuple(
    (rule, re.compile(pattern), say)
    for rule, say, patterns in (
        (
            "overrides_instructions",
            "tells the model to leave its instructions aside",
            (
                rf"\b(?:ignore|disregard|forget|override|bypass|discard)\W+{_THOSE}{{1,5}}"
                r"(?:(?:system|user|safety|developer)\W+)?(?:instructions?|prompts?|rules|guidelines|directives|context)\b",
                r"\b(?:you are now|from now on,? you)\b",
                r"\bact as (?:the |an? )?(?:admin|root|system|developer|unrestricted)\b",
                r"\b(?:new|updated|real|actual|hidden) (?:system )?(?:instructions?|directives?)\s*:",
                r"\b(?:developer|god|dan|jailbreak|unrestricted) mode\b",
                r"(?:忽略|无视|忘记|忘掉|抛弃|绕过|不要理会|不用理会|不要遵守|不再遵守|覆盖)(?:掉|了)?.{0,6}"
                r"(?:之前|以前|以上|上面|上述|前面|先前|此前|所有|一切|任何|全部|原有|原来|系统|你的).{0,8}"
                r"(?:指令|指示|提示|规则|约束|限制|设定|要求|命令)",
                r"(?:你现在是|从现在(?:开始|起),?你|新的?(?:系统)?指令\s*[::])",
            ),
        ),
        (
            "hides_from_user",
            "tells the model to keep something from the user",
            (
                r"\b(?:do not|don't|dont|never|must not|should not|shouldn't|without|avoid)\W+(?:ever\W+)?"
                rf"(?:tell|inform|telling|informing|mention|notify|notifying|reveal|disclose|alert|alerting|warn|show)\w*\W+"
                rf"(?:\w+\W+){{0,5}}?{_WHO}\b",
                r"\b(?:do not|don't|never)\W+(?:mention|reveal|disclose)\W+(?:this|that|these|it|any of this)\b",
                rf"\bwithout {_WHO}(?:'s|s')? (?:knowledge|knowing|noticing|awareness)\b",
                rf"\b(?:hide|conceal|keep) (?:this|that|it|these|them)\b.{{0,30}}\bfrom {_WHO}\b",
                r"\b(?:secretly|covertly|stealthily)\b",
                r"(?:不要|不可|不得|不能|不必|别|禁止|切勿|请勿|无需|勿|避免|绝不)(?:将?.{0,8})(?:告诉|告知|通知|提醒|透露|泄露给|提及|提示|展示给|让)"
                r".{0,6}(?:用户|使用者|客户|人类|对方|任何人)",
                r"(?:瞒着|背着)(?:用户|使用者|客户)",
                r"(?:秘密地|偷偷|暗中|悄悄)(?:地)?(?:把|将|读|发|调|执|上|复|记|传|收)",
            ),
        ),
        (
            "asks_for_secrets",
            "tells the model to read or hand over what the tool does not need",
            (
                rf"\bbefore (?:you )?(?:us|call|invok|runn?|execut)\w*\W+.{{0,40}}?\btools?\b.{{0,80}}?\b"
                rf"(?:(?:read|open|cat|copy|send|upload|collect|access|pass|attach)\b.{{0,80}}?(?:file|contents?)|{_READ}\b.{{0,80}}?{_SECRETS})",
                rf"\b{_READ}\b[^.。]{{0,60}}(?:~/\.|\.ssh\b|id_rsa|id_ed25519|/etc/(?:passwd|shadow)|\.aws/credentials|mcp\.json)",
                rf"\b(?:pass|send|include|put|provide|append|copy|insert|place)\b[^.。]{{0,60}}{_SECRETS}[^.。]{{0,60}}"
                r"\b(?:as|in|into|to|via)\b[^.。]{0,20}\b(?:parameter|argument|field|note|sidenote|url|query)\b",
                r"(?:在)?(?:使用|调用|执行|运行).{0,6}(?:工具|函数|技能|接口)(?:之)?前.{0,20}"
                r"(?:读取|打开|查看|获取|收集|发送|上传|复制).{0,30}(?:文件|内容|配置|密|凭|令牌|记录|~/)",
                rf"(?:读取|打开|获取|收集|复制|发送|上传|附上|填入|写入|传入|带上).{{0,20}}{_SECRETS}.{{0,30}}"
                r"(?:参数|字段|备注|发送|上传|传给|填入|写入|一并|附)",
            ),
        ),
        (
            "sends_elsewhere",
            "tells the model to send something to an address of its own",
            (
                rf"\b{_LEAVE}\b[^.。]{{0,80}}\bto\b[^.。]{{0,20}}(?:https?://|www\.|[a-z0-9._%+-]{{1,64}}@[a-z0-9-]{{1,64}}\.)",
                r"\b(?:bcc|cc)\b[^.。]{0,30}[a-z0-9._%+-]{1,64}@[a-z0-9-]{1,64}\.",
                r"\ball (?:e-?mails?|messages?|payments?|transfers?|results?|data)\b[^.。]{0,40}"
                r"\b(?:must|should|have to|need to|shall)\b[^.。]{0,20}\b(?:sent|forwarded|copied|redirected|routed)\b",
                r"(?:把|将)?.{0,30}(?:发送|转发|上传|提交|抄送|密送|汇报|同步)(?:一份)?(?:到|至|给)\s?"
                r"(?:https?://|[a-z0-9._%+-]{1,64}@[a-z0-9-]{1,64}\.)",
            ),
        ),
        (
            "pushes_itself",
            "tells the model to take this tool in place of others",
            (
                r"\b(?:always|must|only|should)\b[^.。]{0,30}\b(?:use|call|prefer|choose|invoke)\b[^.。]{0,15}"
                r"\bthis (?:tool|function|skill)\b"
                r"[^.。]{0,30}\b(?:instead of|rather than|over|in place of)\b[^.。]{0,20}\b(?:any|all|every|other)\b",
                r"\b(?:never|do not|don't)\b (?:use|call|trust)\b (?:any|all|the) other (?:tool|function|skill)s?\b",
                r"(?:始终|总是|必须|务必|一律|只能)(?:优先)?(?:使用|调用|选择)(?:本|此|这个|该)(?:工具|函数|技能)"
                r".{0,12}(?:而不是|而非|代替|替代|不要(?:使用|调用)|优先于)",
            ),
        ),
        (
            "speaks_as_system",
            "imitates the marks with which a system or a conversation speaks to the model",
            (
                r"</?(?:important|system|secret|instructions?|critical|hidden|admin|assistant|user_query|override)\b[^<>]{0,40}>",
                r"<\|(?:im_start|im_end|system|user|assistant|endoftext)\|>|<<sys>>|\[/?inst\]|\[system\]|###\s?(?:system|instruction)s?\s?:",
                r"(?:^| )(?:system|assistant)\s?:\s?(?:you|ignore|always|never|the user)\b",
                r"【(?:系统|重要)(?:指令|提示|消息)】",
            ),
        ),
    )
    for pattern in patterns
)

RAW_PATTERNS: Final[tuple[tuple[str, re.Pattern[str], str], ...]] = tuple(
    (rule, re.compile(pattern, re.IGNORECASE), say)
    for rule, pattern, say in (
        (
            "comment",
            r"<!--|\[//\]:\s*#|\[comment\]:\s*#|%%[^%\n]{20,}%%",
            "has a comment that a rendered page does not show",
        ),
        (
            "hidden_markup",
            r"display\s*:\s*none|font-size\s*:\s*0|visibility\s*:\s*hidden|color\s*:\s*(?:white|transparent)\b.{0,20}<",
            "has markup that hides text",
        ),
        (
            "fetching_link",
            r"!\[[^\]\n]{0,200}\]\(\s*https?://|<(?:img|iframe|script|object|embed)\b[^<>]{0,200}\bsrc\s*=|javascript:|data:[a-z]+/[a-z0-9.+-]+;base64,",
            "has a picture or script that is fetched when it is shown",
        ),
        (
            "leaking_link",
            r"https?://[^\s\"')]{1,200}[?&][^\s=&]{1,40}=(?:\{\{?|\$\{|<|%7B)[^\s}>]{1,60}",
            "has a link with a place for data in its query",
        ),
    )
)
