"""Forward and backward passes that methods are made of: states at the subject, optimised values, keys, adapters."""
