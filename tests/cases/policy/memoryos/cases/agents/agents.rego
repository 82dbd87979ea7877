# Agents with mail, calendar, files and chat: their user may use every tool, and the rules for every skill hold.
package memoryos.cases.agents

import data.memoryos.subjects

allow contains {"code": "usable", "text": "The user may use this tool."} if subjects.known
