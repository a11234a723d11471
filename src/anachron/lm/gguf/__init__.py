"""Models in GGUF files: by transformers, or computed by llama.cpp."""
