"""Storms: a thousand prologs that fail in the same second, against one controller."""
