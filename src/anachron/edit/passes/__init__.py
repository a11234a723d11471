"""Forward and backward passes that methods are made of: keys and values at the subject, gradients, batched adapters."""
