"""Skills, schemas, calls and their rules: values without input or output."""
