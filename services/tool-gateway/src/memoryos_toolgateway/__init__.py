"""Skills, validation and the effect journal."""
