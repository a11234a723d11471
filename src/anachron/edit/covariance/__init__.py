"""C = E[k k'], the second moment of an MLP projection's input over a text: collected once, kept and factorised."""
