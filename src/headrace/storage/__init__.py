"""Files and objects that outlive a process, at a path or a URI."""
