"""What several tests share: tiny models, fake servers, synthetic runs, naive recounts."""
