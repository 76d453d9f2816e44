"""After a job: what it left behind, and who began its failure."""
