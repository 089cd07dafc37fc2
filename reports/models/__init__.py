"""View models: what the report shows, as plain data, one block of the report a file."""
