"""From score tables to results: W and R, and every analysis of the papers. Loads no model."""
