"""Data sets for other tools: lm-evaluation-harness, Inspect, the Hugging Face hub, CounterFact."""
