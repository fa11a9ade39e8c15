"""The systems that are measured, each in processes of its own behind one contract."""
