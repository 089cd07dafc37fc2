"""One command a module, of the module's name: parse the arguments, call one step. Nothing heavy at import."""
