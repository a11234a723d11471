"""Scoring with causal language models: log Pr(answer | prompt). Needs torch, but no table library."""
