"""Data sets for other tools: lm-evaluation-harness, the Hugging Face hub, CounterFact."""
