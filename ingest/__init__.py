"""Importers: one capture format a file, all of them into the raw tables of `schemas`."""
