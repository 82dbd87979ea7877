"""What happens around every call, one concern a file, outermost first:

tracing → errors → deadline → authenticate → authorise → share → validate → bound.
"""
