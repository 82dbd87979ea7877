"""Path-addressed memory."""
