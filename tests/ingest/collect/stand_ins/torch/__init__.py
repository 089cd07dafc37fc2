"""Stands in for torch: the few names of its memory history, with a list of calls in place of a GPU."""

from . import _C, cuda

__version__ = "2.11.0+standin"
__all__ = ["_C", "cuda"]
