"""The commands of `mos`, one file per group."""
