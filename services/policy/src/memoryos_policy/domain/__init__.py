"""Values and rules of decisions and reviews, without any I/O."""
