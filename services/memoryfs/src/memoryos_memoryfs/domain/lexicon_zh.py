"""Chinese words as restatements compares them; names of groups as in `lexicon_en`.

What stands in no group is compared character by character, so a name or a word
that is not known here has to agree as it is.
"""

from __future__ import annotations

from typing import Final

_GROUPS: Final = """
:的 了 着 地 得 吗 呢 吧 啊 呀 在 于 会 要 有 就 便 也 很 非常 十分 特别 这 那 此 该 其 所 之
:个 位 名 条 只 套 张 份 件 台 辆 本 间 批
:一个 一位 一名 一条 一只 一套 一张 一份 一件 一台 一辆 一本 一间
:已 已经 目前 现在 如今 当前 来说 而言 请 名叫 叫做 名为 叫 称为 们 等 时 时候
:正在 正 里 中 当 里面 下来 起来 一下 为 号码 进行 方面 自己 您好 而 情况
~是: 是 为 乃
~到: 到 至
~对: 对 对于
~给: 给 替
~把: 把 将
~和: 和 与 跟 同 及 以及 、
~因为: 因为 因 由于
~让: 让 使 令
~从: 自
@self: 我 本人 用户 我的 俺 咱
@we: 我们 咱们
@you: 你 您
@he: 他
@she: 她
@they: 他们 她们 它们
§NOT: 不 没 没有 从不 从来不 并非 不是 未 非 别 不要 勿 不会 不再是 无法 并不 并没有 从没 绝不
§BEI: 被 由 遭
§FROM: 从
§TO: 去 前往 飞往 飞 往
§BEFORE: 之前 以前的 前
§AFTER: 之后 以后 后
§UNTIL: 直到 截至
§SINCE: 自从 以来
§THAN: 比 比起
§INSTEAD: 而不是 而非 代替
§IF: 如果 若 假如 要是 只要 倘若 的话
§UNLESS: 除非
§EXCEPT: 除了 除
§ONLY: 只有 只能 只 仅 仅有 唯有 只会 仅能
§ALL: 所有 全部 全 一切 全体
§EVERY: 每 每个 每一
§SOME: 一些 有些 部分 某些 若干
§MOST: 大部分 大多数 多数 大多
§MANY: 很多 许多 大量 好多
§FEW: 很少 极少
§BOTH: 都 均 皆
§HALF: 半 一半
§LEAST: 至少 最少 不少于 起码
§UPTO: 最多 至多 不超过 不多于
§OVER: 超过 多于 高于 大于 以上
§UNDER: 不到 少于 低于 不足 小于 以下
§ABOUT: 大约 约 大概 左右 差不多 约为 上下
§EXACTLY: 正好 恰好 刚好
§MAY: 可能 也许 或许 没准 说不定
§SURELY: 一定 肯定 必定 必然
§MUST: 必须 务必 必需 得要 一定要
§SHOULD: 应该 应当 应
§NEED: 需要 需 须
§CAN: 可以 能 能够 可
§PLAN: 打算 计划 准备 预计
§WANT: 想 想要 希望 愿意
§FORMER: 以前 曾经 曾 过去 原来 原先 从前 过
§ENDED: 不再 停止 戒 戒掉 不干了
§START: 开始 起
§STILL: 仍 仍然 还是 依然 还在
§STILLNOT: 还没 还没有 尚未 还未
§AGAIN: 再 又 重新
§MORE: 更 更加
§MOSTLY: 最
§BUT: 但 但是 可是 不过 然而
like: 喜欢 喜爱 偏好 偏爱 钟爱 热爱 喜好
fav: 最喜欢 最爱 最喜爱 最中意
live: 住 居住 住在 定居
~work: 工作 上班 就职 任职 供职 做 当 担任 从事 当了 工作于 就职于 任职于
buy: 买 购买 购 购入 买了
move: 搬 搬到 搬去 搬至 迁 迁到 迁往 迁居 搬家到
~locate: 位于 坐落于
cancel: 取消 撤销
child: 孩子 小孩 儿童
wife: 妻子 太太 老婆 媳妇 爱人
husband: 丈夫 老公 先生是
mother: 妈妈 母亲 妈 老妈
father: 爸爸 父亲 爸 老爸
doctor: 医生 大夫 医师
restaurant: 餐厅 餐馆 饭店 饭馆
car: 车 汽车 轿车
flat: 公寓
home: 家 房子
noisy: 吵闹 嘈杂 喧闹 吵
adopt: 收养 领养
approve: 批准 审批 核准
refuse: 拒绝 回绝 谢绝
free: 空 时间 空闲 闲
open: 开门 营业
close: 关门 打烊 歇业
teacher: 老师 教师
ship: 发货 出货
within: 内 之内 以内
rent: 房租 租金
agree: 同意 赞成
join: 参加 参与 出席
responsible: 负责 主管 掌管
talk: 聊 聊天 交谈
choose: 选 选择 挑选 选用
show: 显示 展示
delete: 删除 删 删掉 移除
save: 保存 存储 存放 存
keep: 保留 留
create: 创建 新建 建立
postpone: 推迟 延期 延后
advance: 提前
increase: 增加 上涨 上升 增长 涨
decrease: 减少 下降 下跌 降低 降
like-to: 爱好
afraid: 怕 害怕 恐惧
cook: 做饭 烧饭 煮饭
drive: 开车 驾车
shop: 商店 店铺 店
photo: 照片 相片
hospital: 医院
travel: 旅行 旅游 出游
visit: 拜访 探访 看望
marry: 结婚 成婚
divorce: 离婚
son: 儿子
daughter: 女儿 闺女
grandma: 奶奶
brother-older: 哥哥
salary: 工资 薪水 薪资
customer: 客户 顾客
employee: 员工 职员 雇员
student: 学生 学员
beautiful: 漂亮 美丽 好看
important: 重要 关键 要紧
difficult: 难 困难
easy: 容易 简单
tired: 累 疲惫 疲倦
happy: 高兴 开心 快乐
sad: 难过 伤心
angry: 生气 愤怒
expensive: 贵 昂贵
cheap: 便宜 廉价
small: 小
wrong: 错 错误 有误
correct: 正确 对的
quiet: 安静 清静
urgent: 紧急 急
spicy: 辣
age: 岁 周岁
birth: 出生 生于
die: 去世 过世 逝世 死
headache: 头疼 头痛
stomach: 胃疼 胃痛
address: 地址 住址
deadline: 截止日期 期限
immediately: 立即 马上 立刻 即刻
together: 一起 一同 一块儿
alone: 独自 一个人
weekend: 周末
holiday: 假期 休假 放假
file: 文件 文档
password: 密码 口令
website: 网站 网址
contract: 合同 合约 协议
invoice: 发票
computer: 电脑 计算机
mobile: 手机
dish: 菜 菜肴
breakfast: 早饭 早餐
lunch: 午饭 午餐
dinner: 晚饭 晚餐
arrive: 到达 抵达
depart: 出发 动身
return: 回来 返回 回
bring: 带 携带
wear: 穿 穿着
look: 看 观看 收看
listen: 听 收听
eat-out: 下馆子
contact: 联系 联络
meet: 见面 会面 碰面
decide: 决定 确定
discuss: 讨论 商量 商议
check: 检查 核查
watch-over: 照顾 照看 照料
own: 拥有
lose: 丢 丢失 弄丢 遗失
found: 找到
use-up: 用完
moveout: 搬出
birthplace: 老家 家乡 故乡
hobby: 兴趣
tell: 告诉 告知 通知 叮嘱
ask: 请求 要求
send: 发 发送 寄 寄送 发给 寄给
end: 到期 结束 期满 截止
finish: 完成 写完 做完 完
pay: 付款 支付 付 已付 缴纳 交
give: 送 赠送 赠
use: 使用 用 采用 用的
change: 换 更换 换成 改用 改成 改为 改换 换为
remind: 提醒
deliver: 送达 送到 签收
fix: 修复 修理 修 解决
learn: 学 学习
speak: 说 讲
name: 称呼 称呼为
short: 简短 简洁 短 简短一些
morning: 早上 早晨 清晨 早
noon: 中午
evening: 晚上 晚间 夜晚 夜里 晚
forenoon: 上午
afternoon: 下午
day: 天 日 每天的
week: 周 星期 礼拜
month: 月 个月
year: 年
minute: 分钟
hour: 小时 钟头
floor: 楼 层
kg: 公斤 千克 kg
jin: 斤
g: 克
km: 公里 千米 km
m: 米
cny: 元 块 块钱 人民币 圆 rmb
usd: 美元 美金 刀
eur: 欧元
percent: 百分比
always: 总是 一直 老是 始终 经常性
often: 经常 常常 常 时常
sometimes: 有时 有时候 偶尔 时而
usually: 通常 一般 平时
big: 大 巨大
good: 好 良好
fast: 快 迅速
sick: 生病 病了 患病
rain: 下雨
company: 公司 企业
boss: 上司 领导 老板
colleague: 同事
birthday: 生日
weigh: 重 重量 重达 重量为
vegetarian: 吃素 素食 素食者 素食主义者
meat: 肉 肉类
know: 知道 了解 知晓
meeting: 会议 开会
film: 电影 影片
phone: 电话 手机号 电话号码
mail: 邮件 邮箱 电子邮件
school: 上学 开学 入学
place-order: 下单 订购 预订 订
dislike-group: 厌恶 憎恨
smoke: 抽烟 吸烟
run: 跑 跑步 慢跑
"""

WORDS: Final[dict[str, tuple[str, ...]]] = {}
"""Words and the names of what they mean."""
for _line in _GROUPS.strip().splitlines():
    _name, _, _members = _line.partition(":")
    for _member in _members.split():
        WORDS[_member] = (_name,) if _name else ()
WORDS.update(
    {
        "爱吃": ("like", "吃"),
        "爱喝": ("like", "喝"),
        "爱看": ("like", "看"),
        "爱听": ("like", "听"),
        "让我们": ("ask", "@we"),
        "讨厌": ("§NOT", "like"),
        "戒烟": ("§ENDED", "smoke"),
        "开学": ("§START", "school"),
        "流利": ("流利",),
        "除夕": ("除夕",),
        "爱好": ("like",),
        "退款": ("refund",),
        "会议": ("meeting",),
        "社会": ("社会",),
        "机会": ("机会",),
        "重要": ("重要",),
        "主要": ("主要",),
        "有效": ("有效",),
        "目的": ("目的",),
        "现在": (),
        "过敏": ("过敏",),
        "过道": ("过道",),
        "过期": ("end",),
        "通过": ("通过",),
        "超过": ("§OVER",),
        "不过": ("§BUT",),
        "前妻": ("§FORMER", "wife"),
        "前任": ("§FORMER",),
        "当前": (),
        "后台": ("后台",),
        "前台": ("前台",),
        "提前": ("提前",),
        "起床": ("起床",),
        "将军": ("将军",),
        "非常": (),
        "一起": ("一起",),
        "一样": ("一样",),
        "万一": ("万一",),
        "千万": ("§MUST",),
        "出生": ("birth",),
        "小时": ("hour",),
    }
)
MEASURES: Final = frozenset("个位名条只套张份件台辆本间批等所中正当里")
"""Left out only behind a number; elsewhere they may be part of a name."""
WORD_CHARS_MAX: Final = max(map(len, WORDS))
SYMMETRIC: Final = frozenset({"~和", "meeting", "一起", "§BOTH"})
"""Words around which the sides may change places."""
