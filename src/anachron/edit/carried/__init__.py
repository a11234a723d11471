"""What an edit carries beside changes of weights: a memory, statistics of what it was made of."""
