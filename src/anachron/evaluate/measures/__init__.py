"""What is measured of an edited model."""
