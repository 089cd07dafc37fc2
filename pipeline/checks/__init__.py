"""Conservation, range and reference checks of the tables, run at the end of every analysis."""
