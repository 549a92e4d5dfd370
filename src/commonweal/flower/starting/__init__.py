"""What a federation needs to start: folders for operator and members, keys, certificates."""
