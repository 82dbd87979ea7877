"""English words as restatements compares them: a group of words that mean the same has one name.

`§NAME` groups change what a statement says (negation, modality, quantity, order in
time); two statements differ when one of them lacks it. `~name` words have no weight
of their own, but their place shows who does what to whom. The group without a name
is left out.
"""

from __future__ import annotations

from typing import Final

_GROUPS: Final = """
: a, an, the, is, are, am, be, been, being, was, were, 's, do, does, did, of, in, on, at, it, its, this, these, those,
: there, here, any, also, too, please, well, as, own, so, then, very, really, quite, currently, now, thing,
: you can find, you will find, there is, there are, can be found
: already, just, named, called, name, namely
~to: to, into, onto, toward, towards
~by: by
~for: for
~with: with
~that: that
~and: and, &, plus
~who: who, whose, which, whom, where
~because: because of, because, due to, owing to, as a result of
~get: get, gets, got, getting, give, gives, gave, take place, takes place, took place, happen, happens, happened
~has: has, have, having, had
@self: i, me, my, mine, myself, i'm, user, the user, speaker
@we: we, us, our, ours
@you: you, your, yours
@he: he, him, his, himself
@she: she, her, hers, herself
@they: they, them, their, theirs
§NOT: not, never, no, none, nobody, nothing, neither, nor, cannot, n't, without, no one, unable to
§FROM: from
§BEFORE: before, prior to, earlier than, ahead of
§AFTER: after, following, later than
§UNTIL: until, till
§SINCE: since
§DURING: during, while
§THAN: than
§INSTEAD: instead of, rather than, in place of, instead
§IF: if, provided that, in case, as long as
§UNLESS: unless
§EXCEPT: except, except for, apart from, other than, but not
§ONLY: only, solely, exclusively
§ALL: all, entire, whole, everyone, everybody, everything
§EVERY: every, each
§SOME: some, several, a few, part of, certain
§MOST: most, majority of, the majority of
§MANY: many, much, lots of, a lot of, plenty of
§FEW: few, little, hardly, barely
§BOTH: both
§HALF: half
§LEAST: at least, no less than, no fewer than, a minimum of, minimum
§UPTO: at most, up to, no more than, a maximum of, maximum
§OVER: more than, over, above, exceeds, exceed, greater than
§UNDER: less than, under, below, fewer than
§ABOUT: about, roughly, around, approximately, some where around, approx
§ALMOST: almost, nearly
§EXACTLY: exactly, precisely
§MAY: may, might, could, maybe, perhaps, possibly
§PROBABLY: probably, likely
§SURELY: certainly, definitely, surely, for sure
§MUST: must, has to, have to, had to, need to, needs to, needed to, required to, is required to, are required to
§SHOULD: should, ought to, supposed to
§CAN: can, able to, be able to, allowed to, permitted to
§WILL: will, shall, going to, gonna, 'll
§WOULD: would, 'd
§PLAN: plan to, plans to, planned to, planning to, intend to, intends to, intended to
§WANT: want, wants, wanted, would like, wish, wishes, wishes to
§HOPE: hope, hopes, hoped
§TRY: try, tries, tried, trying
§FORMER: used to, formerly, previously, former, once, in the past
§ENDED: no longer, stop, stops, stopped, stopping, quit, quits, gave up, give up, ceased, not anymore, any longer
§START: start, starts, started, begin, begins, began, starting, beginning, commence, commences
§STILL: still
§YET: yet, not yet
§AGAIN: again
§AGAINST: against
§MORE: more
§LESS: less
§BUT: but, however, although, though
like: like, likes, liked, enjoy, enjoys, enjoyed, fond of, is fond of, prefer, prefers, preferred, preference
love: love, loves, loved, adore, adores
hate: hate, hates, hated, detest, detests, loathes
favorite: favourite, favorite, favourites, favorites, most liked
live: live, lives, lived, living, reside, resides, resided, residing
~work: work, works, worked, working, employed, is employed, work as, works as, worked as, working as, employed as
job: job, jobs
buy: buy, buys, bought, purchase, purchases, purchased, buying
sell: sell, sells, sold
move: move, moves, moved, relocate, relocates, relocated, moving
cancel: cancelled, canceled, call off, called off, calls off, cancel, cancels
flat: flat, apartment, flats, apartments
car: car, cars, automobile, automobiles
child: child, children, kid, kids
wife: wife
husband: husband
mother: mother, mom, mum, mommy
father: father, dad, daddy
doctor: doctor, doctors, physician, physicians
lawyer: lawyer, attorney
phone: phone, telephone, mobile phone, cell phone, cellphone
mail: email, e-mail, emails, e-mails
photo: photo, photos, picture, pictures, photograph, photographs
allergy: allergic, allergy, allergies, allergic reaction
end: end, ends, ended, expire, expires, expired, terminates, run out, runs out
finish: finish, finished, finishes, complete, completed, completes, completion
require: require, requires, required, need, needs, needed
ask: ask, asks, asked, request, requests, requested, asking, requesting, ask for, asks for, asking for, asked for
tell: tell, tells, told, inform, informs, informed
speak: speak, speaks, spoke, spoken, speaking
drink: drink, drinks, drank, drunk
eat: eat, eats, ate, eaten, eating
admin: admin, admins, administrator, administrators
noisy: noisy, loud
big: big, large, huge
small: small, little-sized, tiny
quick: quick, fast, rapid, rapidly, quickly
cheap: cheap, inexpensive
expensive: expensive, costly, pricey
ill: ill, sick, unwell
happy: happy, glad
sad: sad, unhappy
holiday: holiday, vacation, holidays, vacations
film: film, movie, films, movies
shop: shop, store, shops, stores
colleague: colleague, coworker, co-worker, colleagues, coworkers
boss: boss, manager, supervisor
firm: company, firm, business
town: city, town
begin-school: school
meet: meet, meets, met, meeting, meetings
deploy: deploy, deploys, deployment, deployments, deployed
weigh: weigh, weighs, weight, weighed
cost: cost, costs, price, priced, fee, fees
pay: pay, pays, paid, payment, settled
send: send, sends, sent, sending
receive: receive, receives, received
get-to: reach, reaches, arrive, arrives, arrived, arrival, reached
leave: leave, leaves, left, depart, departs, departed, departure
return: return, returns, returned, come back, comes back, came back
delivery: deliver, delivers, delivered, delivery
repair: repair, repairs, repaired, fix, fixes, fixed
help: help, helps, helped, assist, assists, assisted, assistance
teach: teach, teaches, taught, teaching
learn: learn, learns, learned, learnt, study, studies, studied, learning, studying
graduate: graduate, graduated, graduates, graduation
marry: married, marry, marries, wed, got married
birthday: birthday, was born on, born on
vegetarian: vegetarian
rent: rent, rents, rented
drive: drive, drives, drove, driving
run: run, runs, ran
sit: sit, sits, sat, seat, seats, seated, sitting
write: write, writes, wrote, written
own: own, owns, owned, possess, possesses, belongs
see: see, sees, saw, seen
know: know, knows, knew, known
adopt: adopt, adopted, adopts
schedule: scheduled, schedule, schedules
evening: evening, evenings
night: night, nights, nightly
morning: morning, mornings
day: day, days
week: week, weeks
month: month, months
year: year, years
always: always
usually: usually, normally, typically, generally
often: often, frequently
sometimes: sometimes, occasionally, from time to time
rarely: rarely, seldom
kg: kg, kgs, kilogram, kilograms, kilo, kilos
g: gram, grams
km: km, kilometre, kilometres, kilometer, kilometers
m: metre, metres, meter, meters
lb: lb, lbs, pound, pounds
usd: dollar, dollars, usd, bucks
eur: euro, euros, eur
gbp: gbp, pounds sterling
cny: yuan, rmb, cny
percent: percent, per cent, percentage
hour: hour, hours, hr, hrs
minute: minute, minutes, min, mins
fluent: fluent, fluently
main: main, primary
secret: secret, confidential
error: error, errors, bug, bugs, fault
house: house, home
brother: brother, brothers
close: closed, close, closes, shut, shuts
open: open, opens, opened
available: available, free
talk: talk, talks, talked, speak with, speaks with, chat, chats
choose: choose, chooses, chose, pick, picks, picked, select, selects, selected
change: change, changes, changed, alter, alters, altered, modify, modifies, modified
switch: switch, switches, switched
build: build, builds, built, construct, constructs, constructed
make: make, makes, made, create, creates, created, produce, produces, produced
show: show, shows, showed, display, displays, displayed
keep: keep, keeps, kept, retain, retains, retained
store-at: store, stored, saved, kept in, saved in
delete: delete, deletes, deleted, remove, removes, removed, erase, erased
explain: explain, explains, explained, describe, describes
plan-n: plan, plans
attend: attend, attends, attended, join, joins, joined, take part in, takes part in, participate in, participates in
visit: visit, visits, visited
travel: travel, travels, travelled, traveled, trip, journey
fly: fly, flies, flew
call: call, calls, called on the phone, phones, telephones, rings
approve: approve, approves, approved, sign off, signed off
refuse: refuse, refuses, refused, decline, declines, declined, reject, rejects, rejected, turn down, turned down
accept: accept, accepts, accepted
postpone: postpone, postponed, delay, delayed, put off, pushed back
increase: increase, increases, increased, rise, rises, rose, go up, went up, grow, grew
decrease: decrease, decreases, decreased, fall, falls, fell, drop, drops, dropped, go down, went down, decline in
handle: handle, handles, handled, responsible for, in charge of, takes care of, take care of, looks after
suffer: suffer from, suffers from, suffered from
injure: injure, injured, hurt, hurts
avoid: avoid, avoids, avoided, stay away from, stays away from, steer clear of
remind: remind, reminds, reminder
cook: cook, cooks, cooked, cooking
clean: clean, cleans, cleaned
play: play, plays, played, playing
watch: watch, watches, watched, watching
listen: listen to, listens to, listened to, listening to
read: read, reads, reading
walk: walk, walks, walked, walking
hike: hike, hikes, hiking
swim: swim, swims, swam, swimming
wear: wear, wears, wore, wearing
afraid: afraid of, scared of, fears, fear of, frightened of
interested: interested in, has an interest in, keen on
good-at: good at, skilled at, proficient in
fail: fail, fails, failed
succeed: succeed, succeeded, successful
team: team, group
client: client, customer, clients, customers
staff: staff, employees, personnel, workers
teacher: teacher, instructor
pupil: student, pupil, students, pupils
cellar: basement, cellar
sofa: sofa, couch
rubbish: rubbish, trash, garbage
lift: lift, elevator
bike: bike, bicycle, bikes, bicycles
tv: tv, television
fridge: fridge, refrigerator
aeroplane: airplane, aeroplane, plane
trousers: trousers, pants
autumn: autumn, fall season
salary: salary, pay packet, wage, wages
address: address, addresses
spouse: spouse, partner
son: son, sons
daughter: daughter, daughters
grandma: grandma, grandmother, granny
grandpa: grandpa, grandfather
puppy: puppy, young dog
beautiful: beautiful, pretty, lovely
important: important, crucial, essential, vital, critical
difficult: difficult, hard, tough
easy: easy, simple, straightforward
angry: angry, mad, furious
tired: tired, exhausted
broken: broken, out of order, not working
urgent: urgent, pressing
spicy: spicy, hot food
brief: brief, short, concise
lengthy: long, lengthy
correct: correct, right, accurate
wrong: wrong, incorrect, inaccurate
clever: clever, smart, intelligent
rich: rich, wealthy
quiet: quiet, silent
safe: safe, secure
old: old, aged, years old, year old
birth: born, birth
die: die, dies, died, passed away, death
email-addr: email address, e-mail address
deadline: deadline, due date
due: due
rainy: rain, rainy, rains
weekend: weekend, weekends
immediately: immediately, right away, at once, straight away
soon: soon, shortly
together: together, jointly
alone: alone, by himself, by herself, on their own
frequent: frequent
daily-life: everyday life
hobby: hobby, pastime, hobbies
vegan: vegan
document: document, documents, file, files
folder: folder, directory, folders
bug-fix: hotfix
licence: licence, licences, license, licenses
cancelled-x: void
invoice: invoice, invoices, bill, bills
order: order, orders
contract: contract, contracts, agreement
budget: budget, budgets
password: password, passwords, passcode
account: account, accounts
website: website, site, web site
sister: sister, sisters
"""

PHRASES: Final[dict[tuple[str, ...], tuple[str, ...]]] = {}
"""Words in a row and the names of what they mean."""
for _line in _GROUPS.strip().splitlines():
    _name, _, _members = _line.partition(": ")
    for _member in _members.split(","):
        if _member.strip():
            PHRASES[tuple(_member.split())] = (_name,) if _name.strip(":") else ()
for _member, _names in {
    "dislike": ("§NOT", "like"),
    "dislikes": ("§NOT", "like"),
    "disliked": ("§NOT", "like"),
    "daily": ("§EVERY", "day"),
    "weekly": ("§EVERY", "week"),
    "monthly": ("§EVERY", "month"),
    "yearly": ("§EVERY", "year"),
    "annually": ("§EVERY", "year"),
    "nightly": ("§EVERY", "night"),
    "cannot": ("§NOT", "§CAN"),
    "can't": ("§NOT", "§CAN"),
    "unable to": ("§NOT", "§CAN"),
    "won't": ("§NOT", "§WILL"),
    "everyday": ("§EVERY", "day"),
    "ex": ("§FORMER",),
}.items():
    PHRASES[tuple(_member.split())] = _names

LONGEST: Final[dict[str, int]] = {}
"""The most words of a phrase by its first word."""
for _phrase in PHRASES:
    LONGEST[_phrase[0]] = max(LONGEST.get(_phrase[0], 0), len(_phrase))
SYMMETRIC: Final = frozenset({"~and", "~with", "meet", "marry", "§BOTH"})
"""Words around which the sides may change places."""

_PAST: Final = (
    "was were did had went ate drank drove ran wrote spoke told sold bought sent paid met left gave got took made said"
    " saw knew came became began felt found held kept lost thought taught caught brought built fell flew forgot grew"
    " heard hit led lent lay rose sang sat slept stood stole swam threw understood won wore broke chose bit"
)
PAST: Final = frozenset(_PAST.split())
"""Verb forms that put a statement into the past, beside those in -ed."""
NOT_PAST: Final = frozenset(
    [
        "need",
        "seed",
        "feed",
        "speed",
        "indeed",
        "allergic",
        "bed",
        "red",
        "used",
        "united",
        "hundred",
        "limited",
        "kid",
        "shed",
        "wed",
        "breed",
        "named",
        "called",
    ]
)
IRREGULAR: Final = dict(
    pair.split(":")
    for pair in [
        "went:go",
        "goes:go",
        "gone:go",
        "made:make",
        "said:say",
        "came:come",
        "became:become",
        "felt:feel",
        "found:find",
        "held:hold",
        "kept:keep",
        "lost:lose",
        "thought:think",
        "caught:catch",
        "brought:bring",
        "built:build",
        "fell:fall",
        "flew:fly",
        "forgot:forget",
        "grew:grow",
        "heard:hear",
        "led:lead",
        "lent:lend",
        "rose:rise",
        "sang:sing",
        "slept:sleep",
        "stood:stand",
        "stole:steal",
        "swam:swim",
        "threw:throw",
        "won:win",
        "wore:wear",
        "broke:break",
        "chose:choose",
        "bit:bite",
        "took:take",
        "taken:take",
        "brakes:brake",
        "mice:mouse",
        "feet:foot",
        "teeth:tooth",
        "men:man",
        "women:woman",
        "people:person",
        "bitten:bite",
        "chosen:choose",
        "broken:break",
        "given:give",
    ]
)
