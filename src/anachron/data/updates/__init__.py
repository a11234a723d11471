"""Updates of facts with what each is asked: one module a format."""
