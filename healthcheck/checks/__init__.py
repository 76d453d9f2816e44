"""Checks: facts + limits → findings, one file a subject. Found by directory listing."""
