"""Before a job: what runs, within which budget, and what the verdict does."""
