"""Rules of the doctor, one subject a file, found by listing this folder."""
