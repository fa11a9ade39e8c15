"""Files: where a location lies, private files, locks, and the properties files of Spark."""
