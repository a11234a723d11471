"""Until when a model learned, from what it prefers before and after dated changes of the world."""
