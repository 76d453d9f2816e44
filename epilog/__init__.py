"""After a job: what it left behind, which rank on which node began its failure, and what now."""
