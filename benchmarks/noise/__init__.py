"""What noise costs a federation: rules for deciding on noisy figures, compared with the truth."""
