"""The data contract: every column once, tables as ordered column lists, everything else derived."""
