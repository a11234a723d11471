"""Evaluating updates of a model: what an edit did to the fact, to its paraphrases, to other facts and to free text."""
