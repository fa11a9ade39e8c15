"""Output formats for rows. Standard output receives data and nothing else."""
