"""Which way to bring a model up to date, by what each did to updates and to what they should leave alone."""
