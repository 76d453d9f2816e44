"""Many nodes looked at in one go: choose them, reach them, gather and compare their answers."""
