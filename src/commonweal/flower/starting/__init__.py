"""What a federation starts from: folders for operator and members, keys, certificates."""
