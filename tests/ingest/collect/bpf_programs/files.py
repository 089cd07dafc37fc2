"""Opens a file a few times and keeps it open: the kernel keeps a `filp` object each."""

import os
import sys

held = []
for _ in range(int(sys.argv[1])):
    held.append(os.open(sys.argv[2], os.O_RDONLY))
    os.close(os.open(os.devnull, os.O_RDONLY))
os._exit(0)
