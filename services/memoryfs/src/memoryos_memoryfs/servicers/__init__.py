"""MemoryFS on the wire, one mixin per capability: parse, call one operation, render."""
