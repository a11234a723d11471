"""Tables and timelines for people. Reads saved tables; loads no model."""
