"""Server bootstrap, client factory and interceptors."""
