"""Before a job: what is looked at, within which budget, and what the verdict does."""
