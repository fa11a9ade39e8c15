"""Files and objects that outlive a process: results, checkpoints, savepoints, artifacts."""
