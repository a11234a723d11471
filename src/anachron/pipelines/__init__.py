"""What takes several rooms of the library: from a dump to a data set, from updates to an edit, the demo."""
