"""The shell: arguments in, text out. Starts in a blink: heavy imports wait until needed."""
