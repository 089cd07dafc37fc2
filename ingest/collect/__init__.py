"""Recorders that make captures: CUPTI activity, PyTorch memory history, NVML.

The modules that run inside the recorded program (all but `session`, `summary` and `nvml`) import nothing of
leakpath outside this folder: the program's interpreter may be another one, with only cupti-python, numpy and pyarrow.
"""
