"""`mos up`: every process of Memory OS as a supervised direct child."""
