"""The second moment of what goes into an MLP projection, over a text: collected once, kept and factorised."""
