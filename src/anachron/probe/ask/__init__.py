"""What a model believes about time, from its answers alone: questions, readings of answers, samples and estimates."""
