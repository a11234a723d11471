"""What is measured of an edited model, one module a measure."""
