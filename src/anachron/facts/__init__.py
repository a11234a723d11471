"""Files of facts that people keep themselves: how they are read, and which rules their rows obey."""
