"""How a subject is joined to the words before it, one file a language; see `anachron.text.agreement`."""
